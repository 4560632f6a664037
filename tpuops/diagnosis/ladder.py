"""What to do about a verdict: a pure function of class, shape, history and budgets to one move with its reason.

The ladder, cheapest first: wait, restart in place, stop and start, recreate, give up. Two rules outrank every remedy:
what only a person can mend is never retried, and log text alone never stops or deletes a machine. Nothing here acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuops.diagnosis.classes import CLASSES, HEALTHY, PROCESS_KILLED, UNKNOWN, FailureClass, family_of
from tpuops.diagnosis.verdict import Action, Basis, Budgets, Decision, Move, Past, Shape, Verdict

FIXES = frozenset(
    {
        Action.FIX_CREDENTIALS,
        Action.FIX_SSH_KEYS,
        Action.FIX_CONFIG,
        Action.FIX_CODE,
        Action.REDUCE_MEMORY,
        Action.GROW_HOST_MEMORY,
        Action.FREE_DISK,
    }
)
"""Remedies a person applies; repeating the same attempt is not among them."""

_FIRST_WAIT_S = {"capacity": 60.0, "gcs_transient": 15.0, "api_transient": 30.0, "resource_conflict": 30.0}
_MACHINE_WAIT_S = 15.0
_LONGEST_WAIT_S = 1800.0
_HOUR_S, _OFTEN = 3600.0, 3


def decide(
    verdict: Verdict, shape: Shape, past: Sequence[Past], budgets: Budgets, *, step: int, now: float = 0.0
) -> Decision:
    """The next move for a run that failed with `verdict` after reaching training step `step`.

    `past` is every earlier recovery of the run in order; the entries since the last progress are what budgets count.
    `now` is in seconds since the epoch; 0: nothing is said of when things happened.
    """
    failure = CLASSES.get(verdict.failure_class, CLASSES[UNKNOWN])
    wanted = budgets.overrides.get(failure.name)
    final = _final(verdict, failure, wanted)
    if final is not None:
        return final
    recent = since_progress(past, step)
    budget = budget_of(verdict, budgets)
    spent = sum(1 for each in recent if _charged_to(each, budget, budgets))
    limit = budgets.limits.get(budget, budgets.default)
    if spent >= limit:
        reason = f"budget {budget} is spent: {spent} of {limit} recoveries without progress; {_why(verdict, failure)}"
        return Decision(Move.GIVE_UP, reason, budget=budget)
    again = [each for each in recent if _same_cause(each, verdict)]
    if wanted is Move.RESTART and verdict.basis not in {Basis.STATE, Basis.DEVICE}:
        reason = f"the environment asks for no more than a restart: {_why(verdict, failure)}"
        return Decision(Move.RESTART, reason, _backoff_s("", len(again)), budget)
    if failure.escalates and not again and _comes_often(verdict, past, now):
        again = [replace(past[-1], failure_class=recorded_class(verdict), action=Action.RETRY_IN_PLACE)]
    return _ladder(verdict, failure, shape, again, budget)


def _comes_often(verdict: Verdict, past: Sequence[Past], now: float) -> bool:
    """Whether a class that the log names comes for the third time within an hour, though each attempt got further.

    Then a restart in place is no answer to it, and it is met as one that came back at once: with the next rung. What
    advances is never given up for it, since progress refills every budget (the taxonomy's rule 8 is meant for both).
    """
    recent = [each for each in past if _same_cause(each, verdict) and each.at and 0 <= now - each.at <= _HOUR_S]
    return bool(now) and verdict.basis is Basis.LOG and len(recent) >= _OFTEN - 1


def since_progress(past: Sequence[Past], step: int) -> list[Past]:
    """The recoveries since training last got beyond where it had been; empty where this attempt got further."""
    furthest = -1
    recent: list[Past] = []
    for each in past:
        recent = [each] if each.step > furthest else [*recent, each]
        furthest = max(furthest, each.step)
    return [] if step > furthest else recent


def budget_of(verdict: Verdict, budgets: Budgets) -> str:
    """The budget's name: the refinement or the class where the environment names one for it, else the family."""
    for name in (verdict.refinement, verdict.failure_class):
        if name and name in budgets.limits:
            return name
    return family_of(verdict.failure_class, verdict.refinement) or verdict.failure_class


def _charged_to(each: Past, budget: str, budgets: Budgets) -> bool:
    failure_class, refinement = _split(each.failure_class)
    return budget_of(Verdict(failure_class, each.action, refinement=refinement), budgets) == budget


def _split(recorded: str) -> tuple[str, str]:
    """A recorded class: `native_crash/process_killed`, `process_killed` and plain class names are all read."""
    name, _, refinement = recorded.partition("/")
    if name == PROCESS_KILLED:
        return "native_crash", PROCESS_KILLED
    return (name if name in CLASSES else UNKNOWN), refinement


def recorded_class(verdict: Verdict) -> str:
    """How a verdict's class is written into `Past`, so that its refinement keeps its own budget."""
    return f"{verdict.failure_class}/{verdict.refinement}" if verdict.refinement else verdict.failure_class


def _same_cause(each: Past, verdict: Verdict) -> bool:
    return _split(each.failure_class)[0] == verdict.failure_class


def _why(verdict: Verdict, failure: FailureClass) -> str:
    told = verdict.decisive_line.strip() if verdict.basis is Basis.LOG else verdict.advice
    return f"{failure.name} ({failure.meaning})" + (f": {told}" if told else "")


def _final(verdict: Verdict, failure: FailureClass, wanted: Move | None) -> Decision | None:
    """The ends that no history changes, or None."""
    if failure.name == HEALTHY:
        return Decision(Move.FINISH, "the run is done, or goes on by itself")
    if wanted is Move.GIVE_UP:
        return Decision(Move.GIVE_UP, f"the environment says so for {_why(verdict, failure)}")
    if failure.name == UNKNOWN and wanted is Move.RESTART:
        return None
    if failure.name in {"interrupted", UNKNOWN}:
        return Decision(Move.GIVE_UP, f"never restarted: {_why(verdict, failure)}")
    if verdict.action is Action.NONE:
        return Decision(Move.RECONNECT, f"leave it alone and keep watching: {_why(verdict, failure)}")
    if _only_a_person(verdict, failure):
        reason = f"no retry can help: {_why(verdict, failure)}"
        return Decision(Move.GIVE_UP, f"{reason}. {verdict.advice}" if verdict.advice else reason)
    return None


def _only_a_person(verdict: Verdict, failure: FailureClass) -> bool:
    if failure.user_error:
        return not (verdict.action is Action.RECREATE and verdict.basis is Basis.DEVICE)
    return verdict.action in FIXES and not failure.second_chance


def _ladder(verdict: Verdict, failure: FailureClass, shape: Shape, again: Sequence[Past], budget: str) -> Decision:
    """The rung that the history has come to."""
    why = _why(verdict, failure)
    if failure.family == "capacity":
        move = Move.RECREATE if verdict.basis is Basis.STATE else Move.RESTART
        return Decision(move, f"wait for capacity: {why}", _backoff_s("capacity", len(again)), budget)
    if verdict.basis in {Basis.STATE, Basis.DEVICE}:
        return _by_state(verdict, shape, again, budget, why)
    if failure.name == "ssh_timeout":
        return Decision(Move.RECONNECT, f"only the connection was lost: {why}", _backoff_s("", len(again)), budget)
    if not failure.escalates:
        return _in_place_only(verdict, again, budget, why)
    if not again:
        return Decision(Move.RESTART, f"first time, restart in place: {why}", _wait_s(verdict), budget)
    return _escalate(shape, again, budget, why)


def _by_state(verdict: Verdict, shape: Shape, again: Sequence[Past], budget: str, why: str) -> Decision:
    """What the API or the device itself says needs no second opinion."""
    if verdict.action is Action.RECREATE:
        return Decision(Move.RECREATE, f"the machine is gone: {why}", budget=budget)
    if verdict.action is Action.STOP_START:
        move = Move.STOP_START if shape.can_stop else Move.RECREATE
        return Decision(move, f"the machine does not serve: {why}", budget=budget)
    waited = [each for each in again if each.action is Action.WAIT_AND_RETRY]
    if len(waited) > 1 and verdict.failure_class == "maintenance_event":
        return Decision(Move.RECREATE, f"waiting did not bring it back: {why}", budget=budget)
    if verdict.action is Action.RETRY_IN_PLACE:
        return Decision(Move.RESTART, f"the machine serves again: {why}", budget=budget)
    return Decision(Move.RECONNECT, f"wait for the machine: {why}", _backoff_s("", len(again)), budget)


def _in_place_only(verdict: Verdict, again: Sequence[Past], budget: str, why: str) -> Decision:
    """Classes that no other machine would cure: restart, and stop restarting a crash that comes back at once."""
    crashed_again = verdict.failure_class == "native_crash" and not verdict.refinement and bool(again)
    if crashed_again:
        return Decision(Move.GIVE_UP, f"again after a restart without progress: {why}. {verdict.advice}".strip())
    return Decision(Move.RESTART, f"restart in place: {why}", _backoff_s(verdict.failure_class, len(again)), budget)


def _escalate(shape: Shape, again: Sequence[Past], budget: str, why: str) -> Decision:
    """The same class again, without progress: that is the corroboration a stop or a deletion needs."""
    done = {each.action for each in again}
    if Action.RECREATE in done:
        return Decision(Move.GIVE_UP, f"again on a new machine without progress, so the program's fault: {why}")
    if shape.can_stop and Action.STOP_START not in done:
        return Decision(Move.STOP_START, f"again after a restart in place without progress: {why}", budget=budget)
    tried = "a stop and start" if Action.STOP_START in done else "a restart in place"
    return Decision(Move.RECREATE, f"again after {tried} without progress: {why}", budget=budget)


def _wait_s(verdict: Verdict) -> float:
    return _MACHINE_WAIT_S if verdict.action is Action.WAIT_AND_RETRY else 0.0


def _backoff_s(cause: str, times: int) -> float:
    """Seconds to wait: the cause's first wait, doubled each time; none for the first try of what has no named wait."""
    first = _FIRST_WAIT_S.get(cause, 0.0)
    if not first:
        return 0.0 if not times else min(5.0 * 2.0 ** (times - 1), 120.0)
    return float(min(first * 2.0**times, _LONGEST_WAIT_S))
