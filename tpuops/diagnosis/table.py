"""The whole decision table, class by history by shape and state by shape, generated from `decide` itself.

The document is for review: it shows what would be done in every situation, so that nobody has to run the ladder in
their head. Nothing here decides; it asks the functions that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tpuops.diagnosis.classes import CLASSES, FailureClass
from tpuops.diagnosis.evidence import diagnose
from tpuops.diagnosis.ladder import decide
from tpuops.diagnosis.verdict import Action, Basis, Budgets, Decision, Evidence, Past, Shape, Verdict, WorkerEvidence

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
STATES: dict[str, Evidence] = {
    "every process ended with code 0": Evidence((WorkerEvidence(exit_code=0),)),
    "stopped on request": Evidence((WorkerEvidence(exit_code=143, signal=15),), interrupted=True),
    "node PREEMPTED": Evidence((WorkerEvidence(reachable=False),), node_state="PREEMPTED"),
    "node TERMINATED": Evidence((WorkerEvidence(reachable=False),), node_state="TERMINATED"),
    "node gone, or another id": Evidence((WorkerEvidence(reachable=False),), node_missing=True),
    "queued resource SUSPENDED": Evidence((WorkerEvidence(reachable=False),), queued_state="SUSPENDED"),
    "compute.instances.preempted": Evidence(
        (WorkerEvidence(reachable=False),), node_state="READY", vm_events=("compute.instances.preempted",)
    ),
    "node STOPPED": Evidence((WorkerEvidence(reachable=False),), node_state="STOPPED"),
    "node REPAIRING": Evidence((WorkerEvidence(reachable=False),), node_state="REPAIRING"),
    "node RESTARTING": Evidence((WorkerEvidence(reachable=False),), node_state="RESTARTING"),
    "node UNKNOWN": Evidence((WorkerEvidence(reachable=False),), node_state="UNKNOWN"),
    "READY, UNHEALTHY_MAINTENANCE, process lives": Evidence(
        (WorkerEvidence(),), node_state="READY", node_health="UNHEALTHY_MAINTENANCE"
    ),
    "READY, UNHEALTHY_MAINTENANCE, process ended": Evidence(
        (WorkerEvidence(exit_code=1),), node_state="READY", node_health="UNHEALTHY_MAINTENANCE"
    ),
    "READY, UNHEALTHY_TENSORFLOW, process ended": Evidence(
        (WorkerEvidence(exit_code=1),), node_state="READY", node_health="UNHEALTHY_TENSORFLOW"
    ),
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
}
"""Situations that no log line decides."""


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
    return "\n".join([*_head(), *_by_class(), *_by_state(), ""])


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
