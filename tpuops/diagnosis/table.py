"""The whole decision table, class by history by shape and state by shape, generated from `decide` itself.

The document is for review: it shows what would be done in every situation, so that nobody has to run the ladder in
their head. Nothing here decides; it asks the functions that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial

from tpuops.diagnosis.classes import CLASSES, FailureClass
from tpuops.diagnosis.evidence import diagnose
from tpuops.diagnosis.ladder import decide
from tpuops.diagnosis.signatures import packaged
from tpuops.diagnosis.verdict import (
    Action,
    ApiError,
    Basis,
    Budgets,
    Decision,
    Evidence,
    Past,
    Shape,
    Verdict,
    WorkerEvidence,
)

SHAPES = {
    "one worker, on demand": Shape(),
    "one worker, spot": Shape(spot=True),
    "one worker, queued": Shape(queued=True),
    "many workers": Shape(workers=4),
}
_STEP = 100
_RESTARTED, _STOPPED, _RECREATED = Action.RETRY_IN_PLACE, Action.STOP_START, Action.RECREATE
HISTORIES: dict[str, tuple[Action, ...]] = {
    "first time": (),
    "again after a restart": (_RESTARTED,),
    "again after stop/start too": (_RESTARTED, _STOPPED),
    "again on a new machine": (_RESTARTED, _RECREATED),
    "budget spent": (_RESTARTED,) * 3,
}
OFTEN = "third time in an hour"
_LEFT = (WorkerEvidence(reachable=False),)
_ENDED = (WorkerEvidence(exit_code=1),)
_NODE_STATES = (
    *("CREATING", "STARTING", "RESTARTING", "REIMAGING", "REPAIRING", "STOPPING", "STOPPED"),
    *("PREEMPTED", "TERMINATED", "DELETING", "HIDING", "HIDDEN", "UNHIDING", "UNKNOWN"),
)
_QUEUE_STATES = (
    *("CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING"),
    *("SUSPENDING", "SUSPENDED", "FAILED", "DELETING"),
)
_SYMPTOMS = ("LOW_MEMORY", "OUT_OF_MEMORY", "EXECUTE_TIMED_OUT", "MESH_BUILD_FAIL", "HBM_OUT_OF_MEMORY")
_VM_EVENTS = (
    *("preempted", "hostError", "terminateOnHostMaintenance", "upcomingMaintenance", "automaticRestart"),
    "guestTerminate",
)
_REFUSALS = {
    "reason ZONE_RESOURCE_POOL_EXHAUSTED": ApiError(503, "ZONE_RESOURCE_POOL_EXHAUSTED"),
    "reason RESOURCE_QUOTA_EXCEEDED": ApiError(429, "RESOURCE_QUOTA_EXCEEDED"),
    "reason RATE_LIMIT_EXCEEDED": ApiError(403, "RATE_LIMIT_EXCEEDED"),
    "reason IAM_PERMISSION_DENIED": ApiError(403, "IAM_PERMISSION_DENIED"),
    "reason ACCESS_TOKEN_SCOPE_INSUFFICIENT": ApiError(403, "ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
    "reason SERVICE_DISABLED": ApiError(403, "SERVICE_DISABLED"),
    "403 whose text names quota": ApiError(403, "", "Quota limit 'X' has been exceeded. Limit: 0"),
    "429 whose text names capacity": ApiError(429, "", "There is no more capacity in the zone"),
    "HTTP 409": ApiError(409),
    "HTTP 503": ApiError(503),
}
STATES: dict[str, Evidence] = {
    "every process ended with code 0": Evidence((WorkerEvidence(exit_code=0),)),
    "stopped on request": Evidence((WorkerEvidence(exit_code=143, signal=15),), interrupted=True),
    **{f"node {state}": Evidence(_LEFT, node_state=state) for state in _NODE_STATES},
    "node gone, or another id": Evidence(_LEFT, node_missing=True),
    **{f"queued resource {state}": Evidence(_LEFT, queued_state=state) for state in _QUEUE_STATES},
    **{
        f"compute.instances.{event}": Evidence(_LEFT, node_state="READY", vm_events=(f"compute.instances.{event}",))
        for event in _VM_EVENTS
    },
    "READY, UNHEALTHY_MAINTENANCE, process lives": Evidence(
        (WorkerEvidence(),), node_state="READY", node_health="UNHEALTHY_MAINTENANCE"
    ),
    "READY, UNHEALTHY_MAINTENANCE, process ended": Evidence(
        (WorkerEvidence(exit_code=1),), node_state="READY", node_health="UNHEALTHY_MAINTENANCE"
    ),
    **{
        f"READY, {health}, process ended": Evidence(_ENDED, node_state="READY", node_health=health)
        for health in ("UNHEALTHY_TENSORFLOW", "TIMEOUT")
    },
    **{f"READY, symptom {name}": Evidence(_ENDED, node_state="READY", symptoms=(name,)) for name in _SYMPTOMS},
    "READY, no TPU device on the worker": Evidence((WorkerEvidence(exit_code=1, devices=0),), node_state="READY"),
    "READY, machine was restarted": Evidence((WorkerEvidence(rebooted=True),), node_state="READY"),
    "READY, no SSH connection": Evidence((WorkerEvidence(reachable=False),), node_state="READY"),
    "READY, SIGKILL, kernel log shows nothing": Evidence(
        (WorkerEvidence(exit_code=137, signal=9, kernel_log=b""),), node_state="READY"
    ),
    "READY, SIGKILL, kernel log shows an OOM kill": Evidence(
        (WorkerEvidence(exit_code=137, signal=9, kernel_log=b"Out of memory: Killed process 7 (python3)\n"),),
        node_state="READY",
    ),
    "READY, SIGSEGV": Evidence((WorkerEvidence(exit_code=139, signal=11),), node_state="READY"),
    "READY, SIGTERM from outside": Evidence((WorkerEvidence(exit_code=143, signal=15),), node_state="READY"),
    "READY, silent for 40 minutes": Evidence((WorkerEvidence(),), node_state="READY", silence_s=2400.0),
    "READY, code 1, no signature": Evidence((WorkerEvidence(exit_code=1, log=b"bye\n"),), node_state="READY"),
    **{f"refused: {name}": Evidence((), api_errors=(error,)) for name, error in _REFUSALS.items()},
}
"""Situations that no log line decides."""
BESIDE: dict[str, Callable[[bytes], Evidence]] = {
    "node READY": lambda log: Evidence((_failed(log),), "READY", "HEALTHY"),
    "maintenance announced": lambda log: Evidence((_failed(log),), "READY", "UNHEALTHY_MAINTENANCE"),
    "no TPU device": lambda log: Evidence((replace(_failed(log), devices=0),), "READY"),
    "node REPAIRING": lambda log: Evidence((_failed(log),), "REPAIRING"),
    "node STOPPED": lambda log: Evidence((_failed(log),), "STOPPED"),
    "node PREEMPTED": lambda log: Evidence((_failed(log),), "PREEMPTED"),
}
"""What the API or the machine says while a log names a class."""


def _failed(log: bytes) -> WorkerEvidence:
    return WorkerEvidence(log=log, exit_code=1)


@lru_cache
def log_of(failure: FailureClass) -> bytes:
    """A log that names the class and nothing else: an example of one of its signatures, of one with the class's own
    remedy where there is such; empty where there is none."""
    own = [each for each in packaged().signatures if each.failure_class == failure.name]
    for each in sorted(own, key=lambda signature: signature.action is not failure.action):
        for example in each.examples:
            log = f"{example}\n".encode()
            if diagnose(Evidence((_failed(log),))).failure_class == failure.name:
                return log
    return b""


def beside(failure: FailureClass, known: str, shape: Shape) -> tuple[Verdict, Decision]:
    """Verdict and first decision where a log names the class while the API or the machine says `known`."""
    verdict = diagnose(BESIDE[known](log_of(failure)))
    return verdict, decide(verdict, shape, (), Budgets(), step=_STEP)


def decision_for(failure: FailureClass, shape: Shape, history: tuple[Action, ...]) -> Decision:
    """The decision on a verdict that rests on log text alone."""
    verdict = Verdict(failure.name, failure.action, decisive_line="", basis=Basis.LOG)
    past = [Past(failure.name, action, _STEP) for action in history]
    return decide(verdict, shape, past, Budgets(), step=_STEP)


def decision_often(failure: FailureClass, shape: Shape) -> Decision:
    """The decision on such a verdict that comes for the third time within an hour, each attempt having got further."""
    verdict = Verdict(failure.name, failure.action, decisive_line="", basis=Basis.LOG)
    past = [Past(failure.name, _RESTARTED, step=10, at=600.0), Past(failure.name, _RESTARTED, step=50, at=1200.0)]
    return decide(verdict, shape, past, Budgets(), step=_STEP, now=1800.0)


def document() -> str:
    """The table as Markdown."""
    return "\n".join([*_head(), *_by_class(), *_by_state(), *_by_both(), ""])


def _head() -> Iterator[str]:
    yield "# Decisions"
    yield ""
    yield "What tpuops does about a failure, for every class, state and shape. Generated from `tpuops.diagnosis.table`,"
    yield "that is from the functions that decide; a test fails where this file says something else."
    yield "`restart` is in place, `give_up` ends the run with the cause and its advice, `finish` ends it as done."
    yield ""
    yield "## By class, where only the log speaks"
    yield ""
    yield "Histories count recoveries of the same class since the last progress; progress clears them. The last"
    yield "column is a class that comes for the third time within an hour though training advanced each time. In an"
    yield "environment `recovery.budgets` and `recovery.overrides` change numbers and single classes; what only a"
    yield "person can mend is never retried, whatever they say."
    yield "Where the shapes differ, the cell says which: single = one worker on demand, other = spot, queued or many."
    yield ""


def _by_class() -> Iterator[str]:
    yield f"| class | usual remedy | budget | {' | '.join(HISTORIES)} | {OFTEN} |"
    yield "|---|---|---|" + "---|" * (len(HISTORIES) + 1)
    for failure in CLASSES.values():
        cells = [_cell(partial(decision_for, failure, history=history)) for history in HISTORIES.values()]
        cells.append(_cell(partial(decision_often, failure)))
        yield f"| {failure.name} | {failure.action} | {failure.family or '-'} | {' | '.join(cells)} |"
    yield ""


def _cell(decided: Callable[[Shape], Decision]) -> str:
    moves = {name: str(decided(shape).move) for name, shape in SHAPES.items()}
    single = moves.pop("one worker, on demand")
    others = set(moves.values())
    return single if others == {single} else f"single: {single}, other: {', '.join(sorted(others))}"


def _by_state() -> Iterator[str]:
    yield "## By state, exit and silence"
    yield ""
    yield f"| what is known | class | rests on | {' | '.join(SHAPES)} |"
    yield "|---|---|---|" + "---|" * len(SHAPES)
    for name, evidence in STATES.items():
        verdict = diagnose(evidence)
        told = f"{verdict.failure_class}/{verdict.refinement}" if verdict.refinement else verdict.failure_class
        moves = [str(decide(verdict, shape, (), Budgets(), step=_STEP).move) for shape in SHAPES.values()]
        yield f"| {name} | {told} | {verdict.basis} | {' | '.join(moves)} |"
    yield ""


def _by_both() -> Iterator[str]:
    yield "## By class and state, where a log names the class and the process ended"
    yield ""
    yield "The first time. A cell names the class only where the state outranks the log's."
    yield ""
    yield f"| the log names | {' | '.join(BESIDE)} |"
    yield "|---|" + "---|" * len(BESIDE)
    for failure in CLASSES.values():
        if log_of(failure):
            yield f"| {failure.name} | {' | '.join(_both(failure, known) for known in BESIDE)} |"


def _both(failure: FailureClass, known: str) -> str:
    named = beside(failure, known, Shape())[0].failure_class
    moves = _cell(lambda shape: beside(failure, known, shape)[1])
    return moves if named == failure.name else f"{named}: {moves}"
