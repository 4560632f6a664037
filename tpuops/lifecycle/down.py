"""down and status: take away what the environment stands on, and say what stands."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpuops.cloud.port import StoredObject
from tpuops.errors import StillBilling, Transient
from tpuops.lifecycle.consent import Agree, nobody
from tpuops.lifecycle.site import Site, holding, unfenced
from tpuops.lifecycle.stop import GRACE_S, anothers, refuse_anothers, stopped, words
from tpuops.lifecycle.trace import Trace, ended, is_gone
from tpuops.plan import Plan
from tpuops.resources import Observed
from tpuops.stages import holders, lease
from tpuops.stages.look import look
from tpuops.stages.record import ENDED, RUNNING, Records, RunRecord
from tpuops.stages.teardown import Torn, kept_bucket, remove, standing, unknown


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands, who holds the lease (its age in seconds by the server's clock), and the run on record; how that
    ended where nobody watched and nobody was told yet."""

    observed: Observed
    holder: holders.Holder | None
    holder_age_s: float
    record: RunRecord | None
    held: StoredObject | None = None
    ended: Trace | None = None

    @property
    def supervised(self) -> bool:
        """Whether the lease's holder may still act: it neither expired nor surely ended."""
        return self.held is not None and not lease.is_free(self.held, holders.here())


async def status(site: Site) -> Standing:
    """Look at everything; changes nothing. Raises `Busy` for a record of a later version."""
    found = await _recorded(site, await look(site.cloud, site.desired))
    if found.record is None or not is_gone(found.record, found.observed.node):
        return found
    return replace(found, ended=await ended(site, found.record))


async def _recorded(site: Site, observed: Observed) -> Standing:
    """What stands, with what lease and record say."""
    if observed.bucket is None:
        return Standing(observed, None, 0.0, None)
    held = await site.store.read(f"{site.prefix}lease.json")
    record = await Records(site.store, f"{site.prefix}run.json").read()
    if held is None:
        return Standing(observed, None, 0.0, record)
    return Standing(observed, holders.parse(held.data), held.age_s, record, held)


async def down(site: Site, agree: Agree = nobody, *, force: bool = False) -> Torn:
    """Remove node and VM; the bucket stays. With nothing there it only reads.

    An open run is stopped first, gracefully, and its outputs are saved; `force` removes without any of that. Where
    nobody can look, nothing is done, and what may stand remains.

    Raises:
        Busy: a run is open and nobody agreed, or another person supervises it.
        StillBilling: its outputs could not be saved, so everything stays.
    """
    try:
        observed = await look(site.cloud, site.desired)
    except Transient as error:
        return Torn((), (), unknown(site.desired, error.message))  # it may stand, and bill
    if not standing(site.desired, observed, ""):
        return Torn((), kept_bucket(observed), ())
    if not force:
        await _ended_first(site, observed, agree)
    if observed.bucket is None:
        return await remove(site.desired, unfenced(site), "down, no bucket")
    async with holding(site, "down", Plan(())) as crew:
        crew.forget()
        torn = await remove(site.desired, crew, "down")
    if not torn.remains and site.route.leave is not None:
        await site.route.leave()  # keys in metadata went with the machines; OS Login's would outlive them
    return torn


async def _ended_first(site: Site, observed: Observed, agree: Agree) -> None:
    """End an open run, saving what it made. Raises as `down`, and `Busy` for a record of a later version."""
    found = await _recorded(site, observed)
    record = found.record
    if record is not None and record.state in {RUNNING, ENDED}:
        refuse_anothers(site, found.held)
        question = f"stop run {words(site, record, found.held)}, save its outputs, then remove TPU and VM?"
        await agree(question, anothers(site, record, found.held))
        await _stop_first(site, record)


async def _stop_first(site: Site, record: RunRecord) -> None:
    done = await stopped(site, record, GRACE_S)
    if done.remains:
        raise StillBilling(
            f"nothing was removed: the outputs of run {record.run_id} are not saved",
            evidence=[f"{left.kind} {left.name}: {left.why}" for left in done.remains],
            hint=f"{site.typed('down', '--yes', '--discard')} removes the machines with what they hold",
        )
