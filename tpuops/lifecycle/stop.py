"""stop: end a run for good. SIGTERM, a grace, outputs saved, the record closed so that no controller goes on with it.

Where somebody supervises the run, the order is left in the bucket and the training is ended; the supervisor sees both,
saves, and closes. Where nobody does, this command does it all under the lease. Machines stay: `down` removes them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from tpuops.cloud.port import StoredObject
from tpuops.errors import Busy, TpuopsError, Unreachable
from tpuops.lifecycle.consent import Agree
from tpuops.lifecycle.finish import Report, close
from tpuops.lifecycle.machine import agent_on, found_node
from tpuops.lifecycle.session import saved
from tpuops.lifecycle.site import Site, holding
from tpuops.lifecycle.story import Source, Story, open_story
from tpuops.lifecycle.trace import ended, is_gone
from tpuops.plan import Plan
from tpuops.resources import Node
from tpuops.stages import holders, lease
from tpuops.stages import stop as orders
from tpuops.stages.collect import Collected
from tpuops.stages.look import look
from tpuops.stages.record import CLOSED, ENDED, RUNNING, Records, RunRecord
from tpuops.stages.teardown import Left, kept_bucket, standing
from tpuops.stages.watch import AttemptEnd

GRACE_S = 30.0
PATIENCE_S = 300.0
LOOK_S = 1.0
LET_GO_LOOKS = 5
OUTCOME = "stopped"
ENDING = frozenset({"stop", "down"})
"""What a holder does who will open no run."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """How it ended: the record's own report, what stands, who closed it. `run_id` is empty where no run was open."""

    run_id: str = ""
    report: dict[str, Any] | None = None
    kept: tuple[Left, ...] = ()
    remains: tuple[Left, ...] = ()
    supervised: bool = False


async def stop(site: Site, agree: Agree, grace_s: float = GRACE_S) -> Stopped:
    """End the open run; with none open there is nothing to do.

    Raises:
        Busy: nobody agreed, another person supervises it, or a command holds the lease and no run is open yet.
    """
    bucket = await site.cloud.bucket(site.desired.bucket.name)
    record = None if bucket is None else await Records(site.store, f"{site.prefix}run.json").read()
    held = None if bucket is None else await site.store.read(f"{site.prefix}lease.json")
    if record is None or record.state not in {RUNNING, ENDED}:
        _refuse_busy(site, held)
        return Stopped()
    refuse_anothers(site, held)
    await agree(f"stop run {words(site, record, held)}, save its outputs and close it?", anothers(site, record, held))
    return await stopped(site, record, grace_s)


def words(site: Site, record: RunRecord, held: StoredObject | None) -> str:
    """The run as a question names it: whose it is, how far it came, who supervises it."""
    told = [f"attempt {record.attempt}"]
    if record.by and record.by != site.user:
        told.append(f"begun by {record.by}")
    holder = _holder(held)
    told.append("nobody supervises it" if holder is None else f"supervised by {holder.words()}")
    return f"{record.run_id} ({', '.join(told)})"


def anothers(site: Site, record: RunRecord, held: StoredObject | None = None) -> str:
    """Who else began the run; empty where it is one's own, one took it on, or it is nobody's on record."""
    holder = _holder(held)
    mine = record.by == site.user or (holder is not None and holder.user == site.user)
    return "" if mine else record.by


def refuse_anothers(site: Site, held: StoredObject | None) -> None:
    """Raise `Busy` where another person supervises it: a living run is theirs to end."""
    holder = _holder(held)
    if holder is not None and holder.user != site.user:
        raise Busy(
            f"the run is supervised by {holder.words()}", hint=f"ask {holder.user} to end it; nothing was touched"
        )


def _refuse_busy(site: Site, held: StoredObject | None) -> None:
    holder = _holder(held)
    if holder is not None and holder.doing not in ENDING:
        raise Busy(
            f"no run is open yet, and the environment is held by {holder.words()}",
            hint=f"Ctrl-C there ends it; {site.typed('status')} shows how far it is",
        )


def _holder(held: StoredObject | None) -> holders.Holder | None:
    """Who surely may act now; None where the lease is free."""
    return None if held is None or lease.is_free(held, holders.here()) else holders.parse(held.data)


async def stopped(site: Site, record: RunRecord, grace_s: float) -> Stopped:
    """Leave the order, then end and close: by the supervisor where there is one, by ourselves where there is none.

    Raises:
        Busy: the supervisor lives and has not closed the run in time.
    """
    now = site.clock.now().isoformat(timespec="seconds")
    await orders.order(site.store, site.prefix, orders.Order(record.run_id, f"{site.user} on {holders.here()}", now))
    records = Records(site.store, f"{site.prefix}run.json")
    deadline = site.clock.monotonic() + grace_s + PATIENCE_S
    supervised = False
    while site.clock.monotonic() < deadline:
        found = await records.read()
        if found is None or found.run_id != record.run_id or found.state == CLOSED:
            await _let_go(site)
            return await _told(site, record.run_id, found, supervised)
        held = await site.store.read(f"{site.prefix}lease.json")
        holder = _holder(held)
        if holder is None:
            return await _alone(site, record.run_id, grace_s)
        if not supervised:
            site.journal.record("stop.ordered", run=record.run_id, holder=holder.words())
        supervised = True
        await _end_training(site, record.run_id, grace_s)
        await site.clock.sleep(LOOK_S)
    raise Busy(
        f"run {record.run_id} was told to end, and its supervisor has not closed it in {PATIENCE_S:.0f} s",
        hint=f"{site.typed('status')} shows who holds it; the order stands, so it ends with this attempt",
    )


async def _let_go(site: Site) -> None:
    """Who closed the run lets go of the lease a moment later; a command that follows need not find it held."""
    for _ in range(LET_GO_LOOKS):
        if _holder(await site.store.read(f"{site.prefix}lease.json")) is None:
            return
        await site.clock.sleep(LOOK_S)


async def _end_training(site: Site, run_id: str, grace_s: float) -> None:
    """End the process of this run on its machine, if it can be reached now; the supervisor does the rest."""
    node = await found_node(site)
    if node is None or not node.is_ready:
        return
    try:
        async with agent_on(site, node) as agent:
            status = await agent.status()
            if status.run_id == run_id and status.alive:
                await agent.stop(grace_s)
    except Unreachable as error:
        site.journal.record("stop.unreached", node=node.name, why=error.message)


async def _told(site: Site, run_id: str, record: RunRecord | None, supervised: bool) -> Stopped:
    """What the supervisor left on record, and what stands now by a look of our own."""
    report = dict(record.outcome.get("report", {})) if record is not None and record.run_id == run_id else None
    observed = await look(site.cloud, site.desired)
    kept = kept_bucket(observed) + standing(site.desired, observed, "`stop` removes nothing")
    return Stopped(run_id, report, kept, (), supervised)


async def _alone(site: Site, run_id: str, grace_s: float) -> Stopped:
    async with holding(site, "stop", Plan(())) as crew:
        story = await open_story(site, crew, Source(site.environment.source_folder, ""))
        if story.record.run_id != run_id or story.record.state == CLOSED:
            return await _told(site, run_id, story.record, False)
        done = await _results(story, grace_s)
        past = story.record.outcome.get("report", {}) if story.record.state == ENDED else {}
        report = Report(**past) if past else await _report(story, site)
        remains = () if done.is_complete else (_unsaved(site, run_id, done),)
        report = replace(report, saved=tuple(asdict(file) for file in done.saved) or report.saved, remains=remains)
        report = await close(story, report, tear_down=False)
    return Stopped(run_id, report.document, report.kept, report.remains)


async def _report(story: Story, site: Site) -> Report:
    record = story.record
    run = {
        "run_id": record.run_id,
        "attempts": record.attempt,
        "recoveries": [dict(row) for row in record.recoveries],
        "best_step": record.best_step,
        "goodput": None,
    }
    found = await ended(site, record) if is_gone(record, await found_node(site)) else None
    outcome, cause = (OUTCOME, f"stopped by {site.user} on {holders.here()}") if found is None else found.end
    return Report(0, outcome, cause, "", run)


async def _results(story: Story, grace_s: float) -> Collected:
    """End the training and save what the machine holds; a machine that is gone for good holds nothing."""
    site, node = story.site, await found_node(story.site)
    if node is None or node.is_lost or (story.record.node_id and node.id != story.record.node_id):
        site.journal.record("stop.gone", name=site.desired.node.name)
        return Collected((), ())
    if not node.is_ready:
        return Collected((), (), f"{node.name} is {node.state}: what its disk holds cannot be read now")
    try:
        return await _saved_from(story, node, grace_s)
    except TpuopsError as error:
        if isinstance(error, Busy):
            raise
        return Collected((), (), " ".join((error.message, *error.evidence)))


async def _saved_from(story: Story, node: Node, grace_s: float) -> Collected:
    story.node = node
    async with agent_on(story.site, node) as agent:
        status = await agent.status()
        if status.run_id != story.record.run_id:
            return Collected((), ())
        if status.alive:
            story.site.journal.record("stop.training", run=status.run_id, attempt=status.attempt, grace_s=grace_s)
            await story.crew.fence()
            await agent.stop(grace_s)
        results = await saved(story, agent)
    if isinstance(results, AttemptEnd):
        return Collected((), (), "the machine was lost before its outputs were saved")
    return results


def _unsaved(site: Site, run_id: str, done: Collected) -> Left:
    why = f"outputs are not saved: {done.problem or ', '.join(done.missing)}"
    return Left("outputs", run_id, why, f"{site.typed('stop')} tries again")
