"""The verdict on one attempt: what the API says of the machine, how each process ended, and what the logs tell.

Asked in the taxonomy's order: interrupted by us, finished, the state of the TPU, the first cause of any worker, exit
codes and signals, silence. Pure: it reads the evidence it is given and asks nobody.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

from tpuops.diagnosis.across import LogVerdict, first_cause, verdict_of
from tpuops.diagnosis.advice import advice_for
from tpuops.diagnosis.classes import CLASSES, HEALTHY, PROCESS_KILLED, UNKNOWN
from tpuops.diagnosis.engine import Engine, engine_for
from tpuops.diagnosis.examine import examine
from tpuops.diagnosis.judge import Judgement
from tpuops.diagnosis.states import api_verdict, device_verdict, state_verdict
from tpuops.diagnosis.verdict import Action, Basis, Evidence, Verdict, WorkerEvidence

_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP})
_ASKED_TO_END = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_PRINTED_AT_ANY_SIGKILL = frozenset({"killed-by-shell", "exit-137", "child-sigkill"})
"""Signatures of host_oom that every SIGKILL prints: no evidence of memory where the kernel's log shows none."""


def diagnose(evidence: Evidence, *, engine: Engine | None = None) -> Verdict:
    """What happened to an attempt."""
    used = engine or engine_for(evidence.progress, evidence.signatures)
    if evidence.interrupted:
        return Verdict("interrupted", Action.NONE, advice="stopped on request", basis=Basis.EXIT)
    if evidence.workers and all(each.exit_code == 0 for each in evidence.workers):
        return Verdict(HEALTHY, Action.NONE, advice="every process ended with code 0", basis=Basis.EXIT)
    judged = [_judged(each, evidence, used) for each in evidence.workers]
    cause = first_cause(judged)
    others = [each for each in judged if each is not cause]
    by_state = state_verdict(evidence)
    if by_state is not None and not _outranks(cause, by_state, evidence):
        told = verdict_of(cause, others=others) if cause else None
        return replace(by_state, echoes=told.echoes) if told else by_state
    by_device = device_verdict(evidence)
    if cause is not None and not _silent(cause, by_device):
        return verdict_of(cause, advice=advice_for(cause.judgement), others=others)
    return by_device or api_verdict(evidence.api_errors, lambda text: _said(text, used)) or _undecided(judged, evidence)


def _said(message: str, engine: Engine) -> str:
    """The class that the text of a refused call names, empty where no signature knows it."""
    told = examine([message.encode()], engine).failure_class
    return "" if told in {HEALTHY, UNKNOWN} else told


def _outranks(cause: LogVerdict | None, by_state: Verdict, evidence: Evidence) -> bool:
    """Whether the program's own fault shows while maintenance is merely announced: that is never retried (taxonomy,
    precedence 7)."""
    announced = by_state.failure_class == "maintenance_event" and evidence.node_state in {"", "READY"}
    return announced and cause is not None and CLASSES[cause.failure_class].user_error


def _silent(cause: LogVerdict, by_device: Verdict | None) -> bool:
    """Whether the log's word is no more than what the device says with more right."""
    return by_device is not None and cause.failure_class in {by_device.failure_class, "tpu_init_failed"}


def _judged(each: WorkerEvidence, evidence: Evidence, engine: Engine) -> LogVerdict:
    """One worker: its log's judgement, overridden where the way its process ended says more."""
    failed = each.exit_code not in {None, 0} or bool(each.signal)
    judgement = examine([each.log], engine, failed=failed)
    return LogVerdict(judgement, worker=each.worker, override=_by_end(each, evidence, judgement, engine))


def _by_end(each: WorkerEvidence, evidence: Evidence, judgement: Judgement, engine: Engine) -> Verdict | None:
    """How the process ended, where that explains more than its text; None where the text stands."""
    ended_by = _signal_of(each)
    by_kernel = _kernel_verdict(each, engine)
    if by_kernel is not None:
        return by_kernel
    told = judgement.failure_class not in {HEALTHY, UNKNOWN}
    weak = judgement.winner is not None and judgement.winner.hit.signature.id in _PRINTED_AT_ANY_SIGKILL
    if told and not (weak and ended_by == signal.SIGKILL):
        return None if each.reachable or each.exit_code is not None else _unreachable(each)
    if ended_by is not None:
        return _by_signal(each, ended_by, _during(evidence))
    return None if each.exit_code is not None else _without_exit(each, evidence)


def _signal_of(each: WorkerEvidence) -> int | None:
    if each.signal:
        return each.signal
    code = each.exit_code
    return code - 128 if code is not None and 128 < code < 160 else None


def _during(evidence: Evidence) -> str:
    """What it was doing, where that is known."""
    return f" during {evidence.phase}" if evidence.phase else ""


def _by_signal(each: WorkerEvidence, ended_by: int, during: str) -> Verdict:
    name = signal.Signals(ended_by).name if ended_by in signal.valid_signals() else f"signal {ended_by}"
    base = Verdict(
        "native_crash",
        Action.FIX_CONFIG,
        worker=each.worker,
        confidence="medium",
        basis=Basis.EXIT,
    )
    if ended_by == signal.SIGKILL:
        seen = "the kernel's log shows no out-of-memory kill" if each.kernel_log is not None else "kernel log not read"
        advice = (
            f"killed from outside by SIGKILL{during} ({seen}); if it comes back at the same place, look at host memory"
        )
        return replace(base, action=Action.RETRY_IN_PLACE, refinement=PROCESS_KILLED, advice=advice)
    if ended_by in _ASKED_TO_END:
        return replace(
            base, failure_class="interrupted", action=Action.NONE, advice=f"ended by {name} from outside{during}"
        )
    return replace(base, advice=f"died of {name}{during}; if it repeats, look at the versions of native libraries")


def _without_exit(each: WorkerEvidence, evidence: Evidence) -> Verdict | None:
    """A process that left no exit code: unreachable, rebooted, silent or vanished."""
    if not each.reachable:
        return _unreachable(each)
    if each.rebooted:
        advice = "the machine was restarted under the run and serves again"
        return Verdict("maintenance_event", Action.RETRY_IN_PLACE, worker=each.worker, advice=advice, basis=Basis.STATE)
    if evidence.silence_s is not None:
        return _silence(each, evidence)
    if len(evidence.workers) > 1:
        return None
    return Verdict(
        "native_crash",
        Action.RETRY_IN_PLACE,
        worker=each.worker,
        confidence="medium",
        advice=f"the process vanished without a record{_during(evidence)}: killed together with its wrapper",
        refinement=PROCESS_KILLED,
        basis=Basis.EXIT,
    )


def _silence(each: WorkerEvidence, evidence: Evidence) -> Verdict:
    nothing = f"nothing advanced for {evidence.silence_s:.0f} s{_during(evidence)}"
    advice = f"alive, and {nothing}: read its stacks (stacks.txt of the evidence) if it comes back at the same place"
    return Verdict(
        "hang", Action.RETRY_IN_PLACE, worker=each.worker, confidence="medium", advice=advice, basis=Basis.EXIT
    )


def _unreachable(each: WorkerEvidence) -> Verdict:
    advice = "no SSH connection while the API calls the node READY: training may well go on; connect again"
    return Verdict(
        "ssh_timeout", Action.WAIT_AND_RETRY, worker=each.worker, confidence="medium", advice=advice, basis=Basis.EXIT
    )


def _kernel_verdict(each: WorkerEvidence, engine: Engine) -> Verdict | None:
    """The kernel's own record of an out-of-memory kill of a process that ended by SIGKILL."""
    if each.kernel_log is None or _signal_of(each) != signal.SIGKILL:
        return None
    judgement = examine([each.kernel_log], engine)
    if judgement.failure_class != "host_oom":
        return None
    told = verdict_of(LogVerdict(judgement, worker=each.worker), advice=advice_for(judgement))
    return replace(told, line_number=0, basis=Basis.EXIT)


def _undecided(judged: Sequence[LogVerdict], evidence: Evidence) -> Verdict:
    """Nobody knows: the first process that failed, or the first log, with its last words."""
    ended = [
        each
        for each, worker in zip(judged, evidence.workers, strict=True)
        if worker.exit_code not in {None, 0} or worker.signal
    ]
    chosen = next(iter(ended or judged), None)
    if chosen is None:
        return Verdict(UNKNOWN, Action.NONE, confidence="low", advice="there is no log and no exit code to judge by")
    told = verdict_of(chosen)
    if ended:
        code = next(w.exit_code for w in evidence.workers if w.worker == chosen.worker)
        advice = f"ended with code {code}{_during(evidence)}, and no signature knows why: read the last lines"
        return replace(told, failure_class=UNKNOWN, action=Action.NONE, confidence="low", advice=advice)
    return told
