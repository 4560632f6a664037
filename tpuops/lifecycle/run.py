"""train and run: enter a run on what stands, or provision, train and tear down in one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict, replace
from typing import Any

from tpuops.errors import Busy, LimitReached, NoCapacity, QuotaExceeded, StillBilling, TpuopsError
from tpuops.lifecycle import refused
from tpuops.lifecycle.detach import detached
from tpuops.lifecycle.finish import (
    DONE,
    LIMIT,
    STILL_BILLING,
    Report,
    close,
    end_machines,
    finish,
    torn_down,
    with_unsaved,
)
from tpuops.lifecycle.session import connected, saved
from tpuops.lifecycle.site import Site, holding
from tpuops.lifecycle.story import Source, Story, open_story, summary
from tpuops.lifecycle.supervise import supervise
from tpuops.lifecycle.told import untold
from tpuops.lifecycle.trace import ended, is_gone, kept_results
from tpuops.lifecycle.unwatched import unwatched
from tpuops.lifecycle.up import compared, planned, provision
from tpuops.plan import Verb
from tpuops.remote.port import Agent
from tpuops.resources import Node, Observed
from tpuops.stages.access import let_in
from tpuops.stages.apply import Crew
from tpuops.stages.check import trainable
from tpuops.stages.collect import Collected
from tpuops.stages.record import ENDED, RUNNING, Records
from tpuops.stages.teardown import kept_bucket, seen, standing, unknown
from tpuops.stages.watch import Attempt, AttemptEnd

STOP_GRACE_S = 20.0
GOES_ON = "training may go on there; tpuops stopped watching it"


async def train(site: Site, source: Source, *, detach: bool = False) -> Report:
    """Train on what stands; outputs are saved, nothing is torn down. With `detach` the run is left to its machine.

    Raises:
        TpuopsError: nothing is provisioned (hint: `tpuops up`), and no run is done that nobody was told of.
        EnvironmentFileError: the file asks for more than training can do; nothing was called.
        AccessError: a secret cannot be read; nothing was made.
    """
    trainable(site.environment)
    await site.secrets.values()
    plan, observed = await compared(site)
    absent = [change for change in plan.effects if change.verb is not Verb.CHANGE]
    if absent and not await _is_done(site, observed):
        missing = ", ".join(f"{change.name} ({change.reason})" for change in absent)
        name = site.environment.name
        raise TpuopsError(f"environment {name} is not up: {missing}", hint=f"{site.typed('up')} provisions it")
    async with holding(site, "train", plan) as crew:
        return await _told(site, crew, source, tear_down=False, detach=detach)


async def _is_done(site: Site, observed: Observed) -> bool:
    """Whether the run on record finished by itself, with nobody there to hear of it, and its machine is gone."""
    record = None if observed.bucket is None else await Records(site.store, f"{site.prefix}run.json").read()
    if record is None or not is_gone(record, observed.node):
        return False
    found = await ended(site, record)
    return found is not None and found.end[0] == "done"


async def run(site: Site, source: Source, *, detach: bool = False) -> Report:
    """Provision, train, survive, save, tear down. Interrupted, it does what `teardown.interrupt` says and raises on.

    With `detach` the run is left to its machine as soon as it is seen alive.

    Raises:
        EnvironmentFileError: the file asks for more than training can do; nothing was called.
        AccessError: a secret cannot be read; nothing was made.
    """
    trainable(site.environment)
    await site.secrets.values()
    plan, _ = await planned(site)
    async with holding(site, "run", plan) as crew:
        return await _told(site, crew, source, tear_down=True, detach=detach)


async def _told(site: Site, crew: Crew, source: Source, *, tear_down: bool, detach: bool) -> Report:
    """The whole of it under the lease; an interruption is answered as the file says before it goes on upwards."""
    try:
        story = await open_story(site, crew, source)
    except Busy:
        raise
    except TpuopsError as error:  # nothing can be said of the run, but of what stands
        return await _left_alone(site, crew, error)
    try:
        if story.record.state == ENDED:
            report = await _or_named(story, _closed(story, tear_down=tear_down))
            if story.is_own or report.remains:
                return report
            story = await open_story(site, crew, source)  # that one was another program's: ours is still to begin
        if (past := await untold(story)) is not None:
            return past
        return await _or_named(story, _carried_out(story, tear_down=tear_down, detach=detach))
    except asyncio.CancelledError:
        await _interrupted(story, tear_down=tear_down)
        raise


async def _closed(story: Story, *, tear_down: bool) -> Report:
    """Finish what an earlier command began after its run had ended: its results first, then its teardown."""
    site = story.site
    site.journal.record("run.closing", run=story.record.run_id)
    report = Report(**story.record.outcome["report"])
    node = await _its_machine(story)
    results = await saved(story, None) if node is not None and node.is_ready else None
    if isinstance(results, Collected):
        report = with_unsaved(report, story, results)
    elif story.record.outcome.get("unsaved") and (node := await _its_machine(story)) is not None:
        report = _unread(report, story, node)
    return await close(story, report, tear_down=tear_down)


def _unread(report: Report, story: Story, node: Node) -> Report:
    """The report of a run whose machine keeps its disk and cannot be asked for what is on it."""
    why = f"{node.name} is {node.state}: what its disk holds cannot be read now"
    return with_unsaved(report, story, Collected((), (), why))


async def _its_machine(story: Story) -> Node | None:
    """The machine of the attempt on record, our key let in; None where it is gone."""
    site = story.site
    node = await site.cloud.node(site.desired.node.place, site.desired.node.name)
    if node is None or node.is_lost or node.id != story.record.node_id:
        return None
    story.node = node
    if node.is_ready:
        await let_in(site.desired, story.crew, node)  # whoever finishes it may be elsewhere, with another key
    return node


async def _provisioned(story: Story, *, tear_down: bool) -> Report | None:
    """Make what is missing; a report where that failed."""
    site, crew = story.site, story.crew
    try:
        story.node = await provision(site, crew)
        await let_in(site.desired, crew, story.node)
    except Busy:
        raise
    except TpuopsError as error:
        site.journal.record("up.failed", why=error.message)
        if story.record.state == RUNNING and await _may_live(site, crew):
            return await _unwatched(story, error)
        return await torn_down(site, crew, _failure(error), tear_down=tear_down)
    return None


async def _carried_out(story: Story, *, tear_down: bool, detach: bool) -> Report:
    site = story.site
    try:
        ended = await unwatched(story)
        if ended is None and (failed := await _provisioned(story, tear_down=tear_down)) is not None:
            return failed
        end = ended or await supervise(story, detach=detach)
        if isinstance(end, Attempt):
            return await detached(story, end, tear_down=tear_down)
        return await finish(story, end, tear_down=tear_down)
    except LimitReached as error:
        return await _limited(story, error, tear_down=tear_down)
    except (NoCapacity, QuotaExceeded) as error:
        await refused.note(site, error)
        return await close(story, replace(_failure(error), run=summary(story)), tear_down=tear_down)


async def _or_named(story: Story, work: Coroutine[Any, Any, Report]) -> Report:
    """What it reports; where it cannot be carried to its end, what goes on billing."""
    try:
        return await work
    except Busy:
        raise
    except TpuopsError as error:
        return await _unwatched(story, error)


async def _may_live(site: Site, crew: Crew) -> bool:
    """Whether a node stands on which an open run may still train; what cannot be looked at may."""
    observed, _ = await seen(site.desired, crew)
    return observed is None or (observed.node is not None and observed.node.is_ready)


def _failure(error: TpuopsError) -> Report:
    return Report(error.exit_code, "failed", " ".join((error.message, *error.evidence)), error.hint)


async def _limited(story: Story, error: LimitReached, *, tear_down: bool) -> Report:
    """Stop the training gracefully, save, tear down."""
    report = await _stopped(story, Report(LIMIT, "limit", error.message, error.hint, summary(story)))
    return await close(story, report, tear_down=tear_down)


async def _stopped(story: Story, report: Report) -> Report:
    """Stop the training gracefully and save its results; the report with them, and with what could not be saved."""
    if story.node is None and await _its_machine(story) is None:
        found = await kept_results(story.site, story.record.run_id)
        return replace(report, saved=tuple(asdict(file) for file in found))

    async def end(agent: Agent) -> Agent:
        await story.crew.fence()  # who lost the lease meanwhile would end its successor's training
        await agent.stop(STOP_GRACE_S)
        return agent

    agent = await connected(story, end)
    if isinstance(agent, AttemptEnd):
        node = await _its_machine(story)
        return report if node is None else _unread(report, story, node)
    report = with_unsaved(report, story, await saved(story, agent))
    await agent.close()
    return report


async def _unwatched(story: Story, error: TpuopsError) -> Report:
    """We cannot go on, yet the training may: touch nothing, and name what goes on billing."""
    why = GOES_ON if story.record.state == RUNNING else f"run {story.record.run_id} has ended, and is not finished"
    return replace(await _left_alone(story.site, story.crew, error, why), run=summary(story))


async def _left_alone(site: Site, crew: Crew, error: TpuopsError, why: str = GOES_ON) -> Report:
    site.journal.record("run.unwatched", why=error.message)
    desired = site.desired
    observed, problem = await seen(desired, crew)
    remains = unknown(desired, problem) if observed is None else standing(desired, observed, why)
    if observed is not None and remains:
        await crew.fence()  # who lost the lease meanwhile sees what its successor made
    kept = () if observed is None else kept_bucket(observed)
    report = replace(_failure(error), kept=kept, remains=remains)
    return replace(report, exit_code=STILL_BILLING if remains else report.exit_code)


async def _interrupted(story: Story, *, tear_down: bool) -> None:
    """Do what the file says on interruption, results first; what keeps running is said, with the way back.

    A run that has ended is finished as the file says for such an end.

    Raises:
        StillBilling: something that should be gone is not, or its outputs are not saved.
    """
    site = story.site
    if story.record.state == ENDED:
        work = _closed(story, tear_down=tear_down)
    else:
        work = _left(story, delete=tear_down and site.environment.teardown.interrupt == "delete")
    report = await _or_named(story, work)
    kept, remains = report.kept, report.remains
    site.journal.record(
        "run.interrupted",
        kept=[left.name for left in kept if left.kind != "bucket"],
        remains=[left.name for left in remains],
        open=story.record.state == RUNNING,
        environment=site.environment.name,
        back=site.typed("run" if tear_down else "train"),
        log=site.typed("logs", "--follow"),
        stop=site.typed("stop"),
        down=site.typed("down"),
    )
    if remains:
        evidence = [f"{left.kind} {left.name}: {left.why}; {left.command}" for left in remains]
        raise StillBilling(
            "interrupted, and not everything is saved and gone", evidence=evidence, hint=remains[0].command
        )


async def _left(story: Story, *, delete: bool) -> Report:
    """What stays and what remains of a run that goes on, or ends here where it is to `delete` its machines."""
    report = Report(DONE, "interrupted")
    if delete and story.record.state == RUNNING and not story.is_own:
        delete = await _its_machine(story) is None  # there this command would have been refused, or begun anew
    if delete and story.record.state == RUNNING:
        report = await _stopped(story, report)
        await story.note()
    torn = await end_machines(story.site, story.crew, delete=delete and not report.remains)
    return replace(report, kept=torn.kept, remains=(*report.remains, *torn.remains))
