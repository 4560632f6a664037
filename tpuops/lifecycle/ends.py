"""ends: what the end of an attempt means for its run. Says, saves and notes; carries no recovery out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tpuops.diagnosis import decide, diagnose
from tpuops.diagnosis.ladder import recorded_class
from tpuops.diagnosis.verdict import Action, Decision, Move, Past, Verdict
from tpuops.errors import LimitReached
from tpuops.lifecycle.session import saved
from tpuops.lifecycle.story import Story
from tpuops.stages import stop as orders
from tpuops.stages.collect import Collected
from tpuops.stages.watch import AttemptEnd

DONE_AS = {
    Move.RESTART: Action.RETRY_IN_PLACE,
    Move.STOP_START: Action.STOP_START,
    Move.RECREATE: Action.RECREATE,
    Move.RECONNECT: Action.WAIT_AND_RETRY,
}
"""How a move is remembered for later decisions."""


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


def judged(story: Story, end: AttemptEnd) -> tuple[Verdict, Decision]:
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


def _said(verdict: Verdict, decision: Decision) -> dict[str, Any]:
    return {
        "class": verdict.refinement or verdict.failure_class,
        "line": verdict.decisive_line[:500],
        "move": str(decision.move),
        "reason": decision.reason,
    }


async def ordered(story: Story, end: AttemptEnd) -> Ending | None:
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
    stopped = ended_by(verdict, Decision(Move.GIVE_UP, reason), await results_of(story, end))
    return replace(stopped, stopped_by=order.by)


async def results_of(story: Story, end: AttemptEnd) -> Collected | AttemptEnd:
    """Save what the machine holds, and let go of it; a machine that is gone holds nothing."""
    if end.agent is None:
        return end
    if end.verdict is not None and story.record.attempt == 1:
        await end.agent.close()
        return Collected((), ())  # it never started: there is nothing to save
    results = await saved(story, end.agent)
    await end.agent.close()
    return results


def ended_by(verdict: Verdict, decision: Decision, results: Collected | AttemptEnd) -> Ending:
    """The run's end by this decision; `results` is an `AttemptEnd` where the machine was lost, or silent, before."""
    if isinstance(results, Collected):
        return Ending(verdict, decision, results, gone=False)
    gone = results.evidence.node_missing or results.evidence.node_state != "READY"
    why = "the machine was lost before its outputs were saved" if gone else "the machine does not answer"
    return Ending(verdict, decision, Collected((), (), why), gone)


async def note(story: Story, end: AttemptEnd, verdict: Verdict, decision: Decision) -> None:
    """Put the failure and the answer to it on record, before the answer is carried out."""
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


def left_s(story: Story) -> float:
    """Seconds that the run may still last, by `limits.runtime`; below 0 where it is over."""
    return story.site.environment.limits.runtime.total_seconds() - story.ran_s


def over(story: Story) -> LimitReached:
    """What to raise then."""
    return LimitReached(
        f"run {story.record.run_id} reached its limit of {story.site.environment.limits.runtime}",
        hint="raise `limits.runtime` in the environment file",
    )
