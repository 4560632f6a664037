"""supervise: watch a run and answer each end of an attempt until it is finished or nothing helps.

The decisions are made elsewhere, from values; this is the loop that carries them from watching to recovering and keeps
the run's record true, so that another controller can go on from any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from tpuops.diagnosis.verdict import Decision, Move, Verdict
from tpuops.errors import Unreachable
from tpuops.lifecycle.ends import Ending, ended_by, judged, left_s, note, ordered, over, results_of
from tpuops.lifecycle.session import begun, connected, entered, joined, reached, saved
from tpuops.lifecycle.story import Story
from tpuops.remote.port import Agent
from tpuops.stages.collect import Collected
from tpuops.stages.record import RUNNING, next_attempt
from tpuops.stages.recover import carry_out, harvest
from tpuops.stages.watch import Attempt, AttemptEnd, Progress, watch

ALIVE_S, PATIENCE_S, LOOK_S = 5.0, 30.0, 0.2
"""A started program is seen alive once it lived this long and took a step, or lived for all our patience."""

ABSENT_WAITS_S = (0.5, 1.0)
"""Seconds between the looks after which a node that was not shown is taken for gone."""

LIMIT_LOOKS_S = (0.01, 30.0)
"""Seconds between looks at how long the run has lasted, at least and at most: it may be over when we wake."""


async def supervise(story: Story, *, detach: bool = False) -> Ending | Attempt:
    """Bring the run to its end; with `detach` to the first attempt that is seen alive, which goes on unwatched.

    Raises:
        LimitReached: `limits.runtime` passed; the training goes on until somebody stops it.
        Busy: a foreign run lives there, or the lease was lost.
        Unreachable: a READY machine stayed silent.
    """
    entry = await entered(story)
    if isinstance(entry, AttemptEnd):
        _own_the_run(story)
    try:
        async with asyncio.timeout(None) as limit:
            minding = asyncio.create_task(_timed(story, limit))
            try:
                return await _until_end(story, entry, detach=detach)
            finally:
                minding.cancel()
    except TimeoutError:
        raise over(story) from None


async def _timed(story: Story, limit: asyncio.Timeout) -> None:
    """Have `limit` end when the run's time is over. Its own clock stands still while this machine is suspended."""
    while (remaining_s := left_s(story)) > 0:
        await story.site.clock.sleep(min(max(remaining_s, LIMIT_LOOKS_S[0]), LIMIT_LOOKS_S[1]))
    limit.reschedule(asyncio.get_running_loop().time())


def _own_the_run(story: Story) -> None:
    """A machine that was lost before anybody could enter leaves the record as it was found: go on with it, or not.

    What is closed, or was trained from another source, is somebody's past and gets no further attempt.
    """
    if story.record.state == RUNNING and story.record.source == story.source.digest:
        story.go_on()
    else:
        story.begin_anew()


async def _until_end(story: Story, entry: Attempt | AttemptEnd, *, detach: bool) -> Ending | Attempt:
    while True:
        progress = story.progress()
        story.tell(progress)
        end = entry if isinstance(entry, AttemptEnd) else await _watched(story, entry, progress, detach=detach)
        story.account(progress)
        if isinstance(end, Attempt):
            return end
        if (stopped := await ordered(story, end)) is not None:
            return stopped
        verdict, decision = judged(story, end)
        if decision.move not in {Move.FINISH, Move.GIVE_UP}:
            entry = await _recovered(story, end, verdict, decision)
            continue
        if decision.move is Move.GIVE_UP and end.agent is not None:
            await _evidence(story, end.agent, end.texts)
        results = await results_of(story, end)
        if isinstance(results, Collected) or decision.move is Move.GIVE_UP:
            return ended_by(verdict, decision, results)
        entry = results  # it finished, and its machine was lost with the results: the next attempt makes them again


async def _watched(story: Story, attempt: Attempt, progress: Progress, *, detach: bool) -> AttemptEnd | Attempt:
    """The attempt's end; the attempt itself where it is seen alive and to be left."""
    if not detach:
        return await watch(attempt, progress, story.eyes)
    clock, watching = story.site.clock, asyncio.ensure_future(watch(attempt, progress, story.eyes))
    began = clock.monotonic()
    try:
        while not watching.done():
            lived_s = clock.monotonic() - began
            if lived_s >= (PATIENCE_S if progress.first_step is None else ALIVE_S):
                return attempt
            await clock.sleep(LOOK_S)
        return await watching
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _recovered(story: Story, end: AttemptEnd, verdict: Verdict, decision: Decision) -> Attempt | AttemptEnd:
    """Harvest, note the failure in the record, carry the decision out and start the next attempt."""
    if decision.move is Move.RECREATE and end.evidence.node_missing and await _stands(story):
        decision = replace(decision, move=Move.RECONNECT)
    await note(story, end, verdict, decision)
    if end.agent is not None:
        await _keep_what_is_there(story, end.agent, decision, end.texts)
    if end.node is None and decision.move is not Move.RECONNECT:
        story.site.journal.record("node.lost", name=story.machine.name, id=story.machine.id)
    node = end.node if decision.move is Move.RESTART else None  # what it showed of this attempt is not of the next
    node = node if node is not None and node.id == story.machine.id else story.machine
    story.node = await carry_out(decision, node, story.site.desired, story.crew)
    if decision.move is Move.RECONNECT:
        return await _reconnected(story)
    story.record = next_attempt(story.record, story.machine.id)
    kept = end.agent if decision.move is Move.RESTART else None
    return await connected(story, lambda agent: begun(story, agent), kept)


async def _stands(story: Story) -> bool:
    """Whether the very node that an earlier look did not show is READY: that look was old, and nothing is gone."""
    for wait_s in (*ABSENT_WAITS_S, None):
        found = await story.site.cloud.node(story.machine.place, story.machine.name)
        if found is not None or wait_s is None:
            return found is not None and found.id == story.machine.id and found.is_ready
        await story.site.clock.sleep(wait_s)
    raise AssertionError("the last look returns")


async def _keep_what_is_there(story: Story, agent: Agent, decision: Decision, texts: Mapping[str, bytes]) -> None:
    """Evidence always; results too before a planned stop or deletion of a machine that still answers."""
    await _evidence(story, agent, texts)
    if decision.move in {Move.STOP_START, Move.RECREATE}:
        try:
            await saved(story, agent)
        except Unreachable as error:
            story.site.journal.record("collect.incomplete", why=error.message, missing=[])
        await agent.close()


async def _evidence(story: Story, agent: Agent, texts: Mapping[str, bytes]) -> None:
    await harvest(agent, story.site.store, f"{story.objects('evidence')}{story.record.attempt}/", story.crew, texts)


async def _reconnected(story: Story) -> Attempt | AttemptEnd:
    """Follow the same attempt again if it is still there, else start the next."""

    async def join(agent: Agent) -> Attempt | AttemptEnd:
        status = await agent.status()
        if (status.run_id, status.attempt) == (story.record.run_id, story.record.attempt):
            return joined(story, agent, status)
        story.record = next_attempt(story.record, story.machine.id)
        return await begun(story, agent)

    found = await reached(story)
    return found if isinstance(found, AttemptEnd) else await connected(story, join, found)
