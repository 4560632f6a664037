"""One session with the machine: connect, join or begin an attempt, save its results.

A connection that breaks in the middle of any of these is made again, after the API has said that the machine still
stands; everything said to the machine may be said twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from tpuops.diagnosis.verdict import Evidence, WorkerEvidence
from tpuops.errors import Busy, CommandFailed, Unreachable
from tpuops.lifecycle.preflight import prepared
from tpuops.lifecycle.story import Story
from tpuops.remote.port import Agent, AgentStatus
from tpuops.resources import Node
from tpuops.stages import run as runs
from tpuops.stages.access import Lost, reach
from tpuops.stages.collect import Collected, collect
from tpuops.stages.record import next_attempt
from tpuops.stages.watch import Attempt, AttemptEnd

TAIL_ON_JOIN = 1 << 18
CONNECTIONS = 10
SAVE_WAITS_S = (2.0, 5.0, 10.0, 0.0)

Result = TypeVar("Result")


async def reached(story: Story) -> Agent | AttemptEnd:
    """Connect to the node; one that was lost meanwhile is the end of its attempt. Raises `Unreachable`."""
    site = story.site
    found = await reach(site.cloud, site.connector, story.machine, site.route, site.clock)
    return lost(story, found.node) if isinstance(found, Lost) else found


def lost(story: Story, node: Node | None) -> AttemptEnd:
    """The end of an attempt whose machine is not what it was."""
    evidence = Evidence(
        (WorkerEvidence(reachable=False),),
        node_state="" if node is None else node.state,
        node_health="" if node is None else node.health,
        node_missing=node is None or node.id != story.machine.id,
    )
    return AttemptEnd(evidence, None, story.site.clock.monotonic(), node)


async def connected(
    story: Story, use: Callable[[Agent], Awaitable[Result]], agent: Agent | None = None
) -> Result | AttemptEnd:
    """Do something on the machine over as many connections as it takes, at most `CONNECTIONS`. Raises `Unreachable`."""
    for tries_left in reversed(range(CONNECTIONS)):
        found = agent if agent is not None else await reached(story)
        if isinstance(found, AttemptEnd):
            return found
        try:
            return await use(found)
        except Unreachable as error:
            if not tries_left:
                raise
            story.site.journal.record(
                "ssh.lost", node=story.machine.name, why=error.message, step=story.record.best_step
            )
            agent = None
    raise AssertionError("the last try returns or raises")


async def entered(story: Story) -> Attempt | AttemptEnd:
    """Join, resume or begin, by the record and what the machine says."""

    async def enter(agent: Agent) -> Attempt | AttemptEnd:
        status = await agent.status()
        record = story.record if story.record.state else None
        way = runs.enter(record, status, story.source.digest, story.machine.id, runs.program_of(story.site.environment))
        story.site.journal.record("run.enter", entry=str(way.entry), reason=way.reason)
        if way.entry is runs.Entry.BEGIN:
            story.begin_anew()
            return await begun(story, agent)
        story.go_on()
        if way.entry is runs.Entry.JOIN:
            story.site.journal.attach(story.site.store, story.objects("journal"))
            return joined(story, agent, status)
        if way.entry is runs.Entry.RESUME:
            story.record = next_attempt(story.record, story.machine.id)
        return await begun(story, agent)

    return await connected(story, enter)


def joined(story: Story, agent: Agent, status: AgentStatus) -> Attempt:
    """Follow an attempt that somebody else started, from a little before its log's end."""
    offset = max(0, status.log_bytes - TAIL_ON_JOIN)
    return Attempt(story.machine, agent, status.run_id, status.attempt, offset)


async def begun(story: Story, agent: Agent) -> Attempt | AttemptEnd:
    """Look at the machine, set up and start the record's attempt there; a fault or a failed set-up is its end."""
    site = story.site
    story.crew.forget()  # a machine that kept the lease kept it for what ran before
    site.journal.attach(site.store, story.objects("journal"))
    story.record = replace(story.record, program=runs.program_of(site.environment))  # the file may have been edited
    await story.note()
    secrets = await site.secrets.values()
    spec = runs.spec_of(site.environment, story.record, site.desired.bucket.name, secrets)
    try:
        fault = await prepared(story, agent, spec)
        if fault is not None:
            return fault
        status = await agent.start(spec)
    except CommandFailed as error:
        log = "\n".join((error.message, *error.evidence)).encode()
        worker = WorkerEvidence(0, log, error.exit_status)
        evidence = Evidence((worker,), story.machine.state, story.machine.health)
        return AttemptEnd(evidence, agent, site.clock.monotonic(), story.machine)
    if (status.run_id, status.attempt) != (spec.run_id, spec.attempt):
        raise Busy(
            f"attempt {status.attempt} of run {status.run_id} is on {story.machine.name}, which another started",
            hint="tpuops status",
        )
    site.journal.record("train.started", run=spec.run_id, attempt=spec.attempt, pid=status.pid, node=story.machine.name)
    return Attempt(story.machine, agent, spec.run_id, spec.attempt)


async def saved(story: Story, agent: Agent | None) -> Collected | AttemptEnd:
    """Collect outputs and logs, trying again while the machine stands; `AttemptEnd` where it is lost meanwhile."""
    site, prefix = story.site, story.objects("saved").rstrip("/")

    async def save(agent: Agent) -> Collected:
        done = await collect(agent, site.store, site.desired.bucket.name, prefix)
        for wait_s in SAVE_WAITS_S:
            if done.is_complete:
                break
            site.journal.record("collect.incomplete", why=done.problem, missing=list(done.missing))
            await site.clock.sleep(wait_s)
            done = await collect(agent, site.store, site.desired.bucket.name, prefix)
        return done

    done = await connected(story, save, agent)
    if isinstance(done, Collected):
        site.journal.record("collect.done", saved=len(done.saved), missing=list(done.missing))
    return done
