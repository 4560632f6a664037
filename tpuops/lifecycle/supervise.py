"""supervise: watch a run and answer each end of an attempt until it is finished or nothing helps.

The decisions are made elsewhere, from values; this is the loop that carries them from watching to recovering and keeps
the run's record true, so that another controller can go on from any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tpuops.diagnosis import decide, diagnose
from tpuops.diagnosis.ladder import recorded_class
from tpuops.diagnosis.verdict import Action, Decision, Move, Past, Verdict
from tpuops.errors import LimitReached, Unreachable
from tpuops.lifecycle.session import begun, connected, entered, joined, reached, saved
from tpuops.lifecycle.story import Story
from tpuops.lifecycle.trace import Trace, ended, evidence_of, is_gone, kept_results
from tpuops.remote.port import Agent
from tpuops.stages import run as runs
from tpuops.stages import stop as orders
from tpuops.stages.collect import Collected
from tpuops.stages.record import RUNNING, next_attempt
from tpuops.stages.recover import carry_out, harvest
from tpuops.stages.watch import Attempt, AttemptEnd, Progress, watch

DONE_AS = {
    Move.RESTART: Action.RETRY_IN_PLACE,
    Move.STOP_START: Action.STOP_START,
    Move.RECREATE: Action.RECREATE,
    Move.RECONNECT: Action.WAIT_AND_RETRY,
}
"""How a move is remembered for later decisions."""

ALIVE_S, PATIENCE_S, LOOK_S = 5.0, 30.0, 0.2
"""A started program is seen alive once it lived this long and took a step, or lived for all our patience."""

ABSENT_WAITS_S = (0.5, 1.0)
"""Seconds between the looks after which a node that was not shown is taken for gone."""


LIMIT_LOOKS_S = (0.01, 30.0)
"""Seconds between looks at how long the run has lasted, at least and at most: it may be over when we wake."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: the last verdict and decision, and what was saved; `gone` where the machine was lost first.

    `stopped_by` names who ordered the end, empty where nobody did.
    """

    verdict: Verdict
    decision: Decision
    collected: Collected
    gone: bool
    stopped_by: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the training program finished by itself and its results are in the bucket."""
        return self.decision.move is Move.FINISH


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
        raise _over(story) from None


async def _timed(story: Story, limit: asyncio.Timeout) -> None:
    """Have `limit` end when the run's time is over. Its own clock stands still while this machine is suspended."""
    while (left_s := _left_s(story)) > 0:
        await story.site.clock.sleep(min(max(left_s, LIMIT_LOOKS_S[0]), LIMIT_LOOKS_S[1]))
    limit.reschedule(asyncio.get_running_loop().time())


def _over(story: Story) -> LimitReached:
    return LimitReached(
        f"run {story.record.run_id} reached its limit of {story.site.environment.limits.runtime}",
        hint="raise `limits.runtime` in the environment file",
    )


async def unwatched(story: Story) -> Ending | None:
    """The end of a run whose attempt ended while nobody watched, and whose machine saved all and is gone.

    None where nothing is known of one, and where the run goes on from it: then that is on record as any failure is.

    Raises:
        LimitReached: it goes on from it, or from its last checkpoint, and `limits.runtime` has passed.
    """
    site, record = story.site, story.record
    ours = (story.source.digest, runs.program_of(site.environment))
    if record.state != RUNNING or (record.source, record.program) != ours:
        return None
    node = await site.cloud.node(site.desired.node.place, site.desired.node.name)
    if not is_gone(record, node):
        return None
    found = await ended(site, record)
    ending = None if found is None else await _answered(story, found)
    if ending is None and _left_s(story) <= 0:
        raise _over(story)
    return ending


async def _answered(story: Story, found: Trace) -> Ending | None:
    site, record, progress = story.site, story.record, story.progress()
    story.go_on()
    site.journal.attach(site.store, story.objects("journal"))
    progress.feed(found.log, site.clock.monotonic())
    story.record = replace(story.record, best_step=max(story.record.best_step, progress.best_step))
    evidence = evidence_of(found, progress.pattern, story.signatures)
    end = AttemptEnd(evidence, None, site.clock.monotonic(), None)
    if (ordered := await _ordered(story, end)) is not None:
        return ordered
    verdict, decision = _judged(story, end)
    if decision.move in {Move.FINISH, Move.GIVE_UP}:
        return _ending(verdict, decision, Collected(await kept_results(site, record.run_id), ()))
    await _note(story, end, verdict, replace(decision, move=Move.RECREATE))
    return None


def _own_the_run(story: Story) -> None:
    """A machine that was lost before anybody could enter leaves the record as it was found: go on with it, or not.

    What is closed, or was trained from another source, is somebody's past and gets no further attempt.
    """
    if story.record.state == RUNNING and story.record.source == story.source.digest:
        story.go_on()
    else:
        story.begin_anew()


def _left_s(story: Story) -> float:
    return story.site.environment.limits.runtime.total_seconds() - story.ran_s


async def _until_end(story: Story, entry: Attempt | AttemptEnd, *, detach: bool) -> Ending | Attempt:
    while True:
        progress = story.progress()
        story.tell(progress)
        end = entry if isinstance(entry, AttemptEnd) else await _watched(story, entry, progress, detach=detach)
        story.account(progress)
        if isinstance(end, Attempt):
            return end
        if (ordered := await _ordered(story, end)) is not None:
            return ordered
        verdict, decision = _judged(story, end)
        if decision.move not in {Move.FINISH, Move.GIVE_UP}:
            entry = await _recovered(story, end, verdict, decision)
            continue
        if decision.move is Move.GIVE_UP and end.agent is not None:
            await _evidence(story, end.agent, end.texts)
        results = await _results(story, end)
        if isinstance(results, Collected) or decision.move is Move.GIVE_UP:
            return _ending(verdict, decision, results)
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


def _judged(story: Story, end: AttemptEnd) -> tuple[Verdict, Decision]:
    """What happened, and what to do."""
    _take_back(story)
    verdict = end.verdict or diagnose(end.evidence)
    now = story.site.clock.now().timestamp()
    decision = decide(verdict, story.shape, story.record.past, story.budgets, step=story.record.best_step, now=now)
    story.site.journal.record("attempt.ended", attempt=story.record.attempt, **_said(verdict, decision))
    return verdict, decision


def _take_back(story: Story) -> None:
    """Forget an answer to this very attempt's end that an earlier controller noted and did not live to carry out.

    It is given anew: a step of the ladder that was only planned is not taken for tried.
    """
    last = story.rows[-1] if story.rows else {}
    if last.get("attempt") == story.record.attempt and last["action"] != Move.RECONNECT:
        story.rows.pop()
        story.record = replace(story.record, past=story.record.past[:-1], recoveries=tuple(story.rows))


async def _ordered(story: Story, end: AttemptEnd) -> Ending | None:
    """The end that a person ordered, with what the machine holds saved; None where nobody did.

    Also where the program ended with 0: one that saves its state on SIGTERM does.
    """
    site, run_id = story.site, story.record.run_id
    order = await orders.ordered(site.store, site.prefix, run_id)
    if order is None:
        return None
    reason = f"stopped by {order.by}"
    site.journal.record("run.stopped", run=run_id, attempt=story.record.attempt, by=order.by)
    verdict = Verdict("interrupted", Action.NONE, advice=reason)
    ending = _ending(verdict, Decision(Move.GIVE_UP, reason), await _results(story, end))
    return replace(ending, stopped_by=order.by)


def _said(verdict: Verdict, decision: Decision) -> dict[str, Any]:
    return {
        "class": verdict.refinement or verdict.failure_class,
        "line": verdict.decisive_line[:500],
        "move": str(decision.move),
        "reason": decision.reason,
    }


async def _results(story: Story, end: AttemptEnd) -> Collected | AttemptEnd:
    """Save what the machine holds, and let go of it; a machine that is gone holds nothing."""
    if end.agent is None:
        return end
    if end.verdict is not None and story.record.attempt == 1:
        await end.agent.close()
        return Collected((), ())  # it never started: there is nothing to save
    results = await saved(story, end.agent)
    await end.agent.close()
    return results


def _ending(verdict: Verdict, decision: Decision, results: Collected | AttemptEnd) -> Ending:
    if isinstance(results, Collected):
        return Ending(verdict, decision, results, gone=False)
    gone = results.evidence.node_missing or results.evidence.node_state != "READY"
    why = "the machine was lost before its outputs were saved" if gone else "the machine does not answer"
    return Ending(verdict, decision, Collected((), (), why), gone)


async def _recovered(story: Story, end: AttemptEnd, verdict: Verdict, decision: Decision) -> Attempt | AttemptEnd:
    """Harvest, note the failure in the record, carry the decision out and start the next attempt."""
    if decision.move is Move.RECREATE and end.evidence.node_missing and await _stands(story):
        decision = replace(decision, move=Move.RECONNECT)
    await _note(story, end, verdict, decision)
    if end.agent is not None:
        await _keep_what_is_there(story, end.agent, decision, end.texts)
    if end.node is None:
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


async def _note(story: Story, end: AttemptEnd, verdict: Verdict, decision: Decision) -> None:
    at = story.site.clock.now().timestamp()
    past = Past(recorded_class(verdict), DONE_AS[decision.move], story.record.best_step, at)
    story.rows.append(
        {
            "class": verdict.refinement or verdict.failure_class,
            "action": str(decision.move),
            "budget": decision.budget,
            "attempt": story.record.attempt,
            "step": story.record.best_step,
            "checkpoint": await _newest_checkpoint(story),
            "detected_s": round(end.noticed_at - story.began_at, 3),
            "resumed_s": None,
            "resumed_step": None,
            "line": verdict.decisive_line[:200],
        }
    )
    story.record = replace(story.record, past=(*story.record.past, past), recoveries=tuple(story.rows))
    await story.note()


async def _newest_checkpoint(story: Story) -> str:
    prefix = story.objects("checkpoints")
    stats = await story.site.store.list(prefix)
    return max(stats, key=lambda stat: (stat.updated, stat.name)).name.removeprefix(prefix) if stats else ""
