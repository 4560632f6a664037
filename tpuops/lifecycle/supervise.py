"""supervise: enter a run, watch it, and answer each end with a decision until it is finished or nothing helps.

The decisions are made elsewhere, from values; this is the loop that carries them from watching to recovering and keeps
the run's record true, so that another controller can go on from any point.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tpuops.diagnosis import decide, diagnose, recorded_class
from tpuops.diagnosis.verdict import Action, Budgets, Decision, Evidence, Move, Past, Shape, Verdict, WorkerEvidence
from tpuops.errors import CommandFailed, LimitReached
from tpuops.lifecycle.site import Site
from tpuops.remote.port import Agent, AgentStatus
from tpuops.resources import Node
from tpuops.stages import run as runs
from tpuops.stages.access import Lost, reach
from tpuops.stages.apply import Crew
from tpuops.stages.record import RUNNING, Records, RunRecord, next_attempt
from tpuops.stages.recover import carry_out, harvest
from tpuops.stages.watch import Attempt, AttemptEnd, Eyes, Progress, watch

TAIL_ON_JOIN = 1 << 18

DONE_AS = {
    Move.RESTART: Action.RETRY_IN_PLACE,
    Move.STOP_START: Action.STOP_START,
    Move.RECREATE: Action.RECREATE,
    Move.RECONNECT: Action.WAIT_AND_RETRY,
}
"""How a move is remembered for later decisions."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source tree to run and its content digest."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: the last verdict and decision, and the machine if it still answers."""

    verdict: Verdict
    decision: Decision
    agent: Agent | None
    node: Node | None
    code: int | None

    @property
    def succeeded(self) -> bool:
        """Whether the training program finished by itself with exit code 0."""
        return self.decision.move is Move.FINISH


@dataclass(slots=True)
class Story:
    """What the loop knows of the run so far."""

    site: Site
    crew: Crew
    source: Source
    records: Records
    record: RunRecord
    began_at: float
    node: Node | None = None
    useful_s: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def machine(self) -> Node:
        """The node of the current attempt."""
        assert self.node is not None
        return self.node

    @property
    def shape(self) -> Shape:
        """What the run stands on, by the live node."""
        return Shape(max(1, len(self.machine.workers)), self.machine.spot, bool(self.machine.queued_resource))

    def progress(self) -> Progress:
        """A fresh account of one attempt's progress."""
        return Progress(self.site.environment.train.progress or "", best_step=self.record.best_step)


async def open_story(site: Site, crew: Crew, source: Source) -> Story:
    """Read the record; `supervise` goes on with the run it names or puts a new one in its place."""
    records = Records(site.store, f"{site.prefix}run.json")
    found = await records.read()
    record = found if found is not None else _new_record(site, source)
    return Story(site, crew, source, records, record, site.clock.monotonic())


def _new_record(site: Site, source: Source) -> RunRecord:
    now = site.clock.now()
    run_id = now.strftime("%Y%m%d-%H%M%S-") + source.digest[:6]
    return RunRecord(run_id, "", source.digest, now.isoformat(timespec="seconds"))


async def supervise(story: Story) -> Ending:
    """Bring the run to its end.

    Raises:
        LimitReached: `limits.runtime` passed; the training was asked to stop.
        Busy: a foreign run lives there, or the lease was lost.
    """
    entered = await _enter(story)
    left_s = _left_s(story)
    try:
        async with asyncio.timeout(left_s):
            return await _until_end(story, entered)
    except TimeoutError:
        raise LimitReached(
            f"run {story.record.run_id} reached its limit of {story.site.environment.limits.runtime}",
            hint="raise `limits.runtime` in the environment file",
        ) from None


def _left_s(story: Story) -> float:
    started = datetime.fromisoformat(story.record.started)
    return (story.site.environment.limits.runtime - (story.site.clock.now() - started)).total_seconds()


async def _until_end(story: Story, entered: Attempt | AttemptEnd) -> Ending:
    while True:
        progress = story.progress()
        end = entered if isinstance(entered, AttemptEnd) else await watch(entered, progress, _eyes(story.site))
        _account(story, progress)
        verdict = diagnose(end.evidence)
        decision = decide(
            verdict, story.shape, story.record.past, _budgets(story.site), step=max(progress.best_step, -1)
        )
        story.site.journal.record("attempt.ended", attempt=story.record.attempt, **_said(verdict, decision))
        if decision.move in {Move.FINISH, Move.GIVE_UP}:
            return Ending(verdict, decision, end.agent, end.node, end.evidence.workers[0].exit_code)
        entered = await _recovered(story, end, verdict, decision)


def _said(verdict: Verdict, decision: Decision) -> dict[str, Any]:
    return {
        "class": verdict.failure_class,
        "line": verdict.decisive_line[:500],
        "move": str(decision.move),
        "reason": decision.reason,
    }


def _account(story: Story, progress: Progress) -> None:
    """Add what one attempt did to the run's account; the row of the failure before it learns when steps came back."""
    story.useful_s += progress.useful_s
    story.record = replace(story.record, best_step=max(story.record.best_step, progress.best_step))
    if story.rows and progress.first_step is not None and story.rows[-1]["resumed_s"] is None:
        story.rows[-1]["resumed_s"] = round(progress.first_step_at - story.began_at, 3)
        story.rows[-1]["resumed_step"] = progress.first_step


async def _enter(story: Story) -> Attempt | AttemptEnd:
    """Join, resume or begin, by the record and what the machine says."""
    agent = await _reached(story)
    if isinstance(agent, AttemptEnd):
        return agent
    status = await agent.status()
    known = story.record if story.record.state else None
    way = runs.enter(known, status, story.source.digest)
    story.site.journal.record("run.enter", entry=str(way.entry), reason=way.reason)
    if way.entry is runs.Entry.JOIN:
        _attach_journal(story)
        story.rows = [dict(row) for row in story.record.recoveries]
        return _joined(story, agent, status)
    if way.entry is runs.Entry.BEGIN:
        story.record = replace(_new_record(story.site, story.source), state=RUNNING, node_id=story.machine.id)
    else:
        story.record = next_attempt(story.record, story.machine.id)
        story.rows = [dict(row) for row in story.record.recoveries]
    return await _begin(story, agent)


def _attach_journal(story: Story) -> None:
    story.site.journal.attach(story.site.store, f"{runs.prefix(story.record.run_id)}journal/")


async def _begin(story: Story, agent: Agent) -> Attempt | AttemptEnd:
    """Start the record's attempt on the machine; a failed set-up is the attempt's end."""
    _attach_journal(story)
    story.crew.fence()
    await story.records.write(story.record)
    spec = runs.spec_of(story.site.environment, story.record, story.site.desired.bucket.name)
    try:
        status = await runs.start(agent, spec, story.source.path, story.source.digest)
    except CommandFailed as error:
        log = "\n".join((error.message, *error.evidence)).encode()
        evidence = Evidence((WorkerEvidence(0, log, error.exit_status),), story.machine.state, story.machine.health)
        return AttemptEnd(evidence, agent, story.site.clock.monotonic(), story.machine)
    story.site.journal.record(
        "train.started", run=spec.run_id, attempt=spec.attempt, pid=status.pid, node=story.machine.name
    )
    return Attempt(story.machine, agent, spec.run_id, spec.attempt)


async def _recovered(story: Story, end: AttemptEnd, verdict: Verdict, decision: Decision) -> Attempt | AttemptEnd:
    """Harvest, note the failure in the record, carry the decision out and start the next attempt."""
    await _note(story, end, verdict, decision)
    if end.agent is not None:
        prefix = f"{runs.prefix(story.record.run_id)}evidence/{story.record.attempt}/"
        await harvest(end.agent, story.site.store, prefix, story.crew)
    if decision.move is not Move.RESTART and end.agent is not None:
        await end.agent.close()
    if end.node is None:
        story.site.journal.record("node.lost", name=story.machine.name, id=story.machine.id)
    story.node = await carry_out(decision, story.machine, story.site.desired, story.crew)
    agent = end.agent if decision.move is Move.RESTART and end.agent is not None else await _reached(story)
    if isinstance(agent, AttemptEnd):
        return agent
    if decision.move is Move.RECONNECT:
        status = await agent.status()
        if (status.run_id, status.attempt) == (story.record.run_id, story.record.attempt):
            return _joined(story, agent, status)
    story.record = next_attempt(story.record, story.machine.id)
    return await _begin(story, agent)


def _joined(story: Story, agent: Agent, status: AgentStatus) -> Attempt:
    """Follow an attempt that somebody else started, from a little before its log's end."""
    offset = max(0, status.log_bytes - TAIL_ON_JOIN)
    return Attempt(story.machine, agent, status.run_id, status.attempt, offset)


async def _note(story: Story, end: AttemptEnd, verdict: Verdict, decision: Decision) -> None:
    past = Past(recorded_class(verdict), DONE_AS[decision.move], story.record.best_step)
    story.rows.append(
        {
            "class": verdict.failure_class,
            "action": str(decision.move),
            "budget": decision.budget,
            "step": story.record.best_step,
            "checkpoint": await _newest_checkpoint(story),
            "detected_s": round(end.noticed_at - story.began_at, 3),
            "resumed_s": None,
            "resumed_step": None,
            "line": verdict.decisive_line[:200],
        }
    )
    story.record = replace(story.record, past=(*story.record.past, past), recoveries=tuple(story.rows))
    await story.records.write(story.record)


async def _newest_checkpoint(story: Story) -> str:
    prefix = f"{runs.prefix(story.record.run_id)}checkpoints/"
    stats = await story.site.store.list(prefix)
    return max(stats, key=lambda stat: (stat.updated, stat.name)).name.removeprefix(prefix) if stats else ""


async def _reached(story: Story) -> Agent | AttemptEnd:
    """Connect to the node; one that was lost meanwhile is the end of an attempt that never started."""
    site = story.site
    found = await reach(site.cloud, site.connector, story.machine, site.route, site.clock)
    if not isinstance(found, Lost):
        return found
    node = found.node
    evidence = Evidence(
        (WorkerEvidence(reachable=False),),
        node_state="" if node is None else node.state,
        node_health="" if node is None else node.health,
        node_missing=node is None or node.id != story.machine.id,
    )
    return AttemptEnd(evidence, None, site.clock.monotonic(), node)


def _eyes(site: Site) -> Eyes:
    return Eyes(site.cloud, site.connector, site.route, site.clock, site.journal, site.show)


def _budgets(site: Site) -> Budgets:
    return Budgets(limits=site.environment.recovery.budgets.limits)


def summary(story: Story) -> dict[str, Any]:
    """The run's own part of a report: JSON values."""
    wall_s = story.site.clock.monotonic() - story.began_at
    return {
        "run_id": story.record.run_id,
        "attempts": story.record.attempt,
        "recoveries": story.rows,
        "best_step": story.record.best_step,
        "goodput": round(story.useful_s / wall_s, 4) if wall_s else None,
        "past": [asdict(past) for past in story.record.past],
    }
