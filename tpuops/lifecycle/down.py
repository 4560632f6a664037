"""down and status: take away what the environment stands on, and say what stands."""

from __future__ import annotations

from dataclasses import dataclass

from tpuops.errors import Busy
from tpuops.lifecycle.site import Site, holding
from tpuops.plan import Plan
from tpuops.resources import Observed
from tpuops.stages import lease
from tpuops.stages.apply import Crew
from tpuops.stages.look import look
from tpuops.stages.record import RUNNING, Records, RunRecord
from tpuops.stages.teardown import Torn, kept_bucket, remove, standing


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands, who holds the lease (its age in seconds by the server's clock), and the run on record."""

    observed: Observed
    holder: lease.Holder | None
    holder_age_s: float
    record: RunRecord | None


async def status(site: Site) -> Standing:
    """Look at everything; changes nothing."""
    observed = await look(site.cloud, site.desired)
    if observed.bucket is None:
        return Standing(observed, None, 0.0, None)
    held = await site.store.read(f"{site.prefix}lease.json")
    record = await Records(site.store, f"{site.prefix}run.json").read()
    if held is None:
        return Standing(observed, None, 0.0, record)
    age_s = (held.server_now - held.stat.updated).total_seconds()
    return Standing(observed, lease.parse(held.data), age_s, record)


async def down(site: Site, *, force: bool) -> Torn:
    """Remove node and VM; the bucket stays. With nothing there it only reads.

    Raises:
        Busy: a run is open on it and `force` was not said.
    """
    found = await status(site)
    observed = found.observed
    if not standing(site.desired, observed, ""):
        return Torn((), kept_bucket(observed), ())
    if found.record is not None and found.record.state == RUNNING and not force:
        raise Busy(
            f"run {found.record.run_id} is open on {site.desired.node.name}",
            hint=f"invoke down --env {site.environment.name} --yes ends it; its outputs are saved by `invoke train`",
        )
    if observed.bucket is None:
        return await remove(site.desired, Crew(site.cloud, lambda: None, site.clock, site.journal), "down, no bucket")
    async with holding(site, "down", Plan(())) as crew:
        return await remove(site.desired, crew, "down")
