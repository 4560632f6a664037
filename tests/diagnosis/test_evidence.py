"""Evidence beyond text: states, exits, the kernel's log, devices, silence, refused calls."""

from dataclasses import replace

import pytest

from tpuops.clock import SystemClock
from tpuops.diagnosis import diagnose
from tpuops.diagnosis.verdict import Action, ApiError, Basis, Evidence, WorkerEvidence
from tpuops.errors import Transient, Unreachable
from tpuops.journal import Journal
from tpuops.resources import Node, Place
from tpuops.stages.evidence import found_in, look

STEPS = b"step=1 loss=2.0\nstep=2 loss=1.0\n"
KEY_ERROR = STEPS + b'Traceback (most recent call last):\n  File "train.py", line 3, in f\nKeyError: 5\n'
SOCKET = STEPS + b"UNAVAILABLE: Socket closed\n"


def judged(*workers, **known):
    return diagnose(Evidence(tuple(workers), **({"node_state": "READY"} | known)))


def test_a_run_that_ended_with_code_0_is_healthy_whatever_its_log_says():
    assert judged(WorkerEvidence(log=SOCKET, exit_code=0)).failure_class == "healthy"


def test_the_users_bug_is_told_with_its_line():
    verdict = judged(WorkerEvidence(log=KEY_ERROR, exit_code=1))
    assert (verdict.failure_class, verdict.decisive_line, verdict.line_number) == ("user_code_error", "KeyError: 5", 5)


@pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED", "DELETING"])
def test_a_lost_node_explains_any_log(state):
    verdict = judged(WorkerEvidence(log=KEY_ERROR, exit_code=1), node_state=state)
    assert (verdict.failure_class, verdict.action, verdict.basis) == ("preempted", Action.RECREATE, Basis.STATE)


def test_a_node_that_is_gone_explains_an_unreachable_worker():
    assert judged(WorkerEvidence(reachable=False), node_state="", node_missing=True).failure_class == "preempted"


def test_an_unknown_state_of_a_later_api_is_tolerated():
    assert judged(WorkerEvidence(log=KEY_ERROR, exit_code=1), node_state="DREAMING").failure_class == "user_code_error"


def test_no_connection_to_a_ready_node_says_nothing_of_the_training():
    verdict = judged(WorkerEvidence(log=SOCKET, reachable=False))
    assert (verdict.failure_class, verdict.action) == ("ssh_timeout", Action.WAIT_AND_RETRY)


def test_sigkill_is_told_apart_from_exhausted_memory_by_the_kernels_log():
    oom = b"[1.2] Out of memory: Killed process 7 (python3) total-vm:9kB, anon-rss:812kB\n"
    by_kernel = judged(WorkerEvidence(log=STEPS, exit_code=137, signal=9, kernel_log=oom))
    assert (by_kernel.failure_class, by_kernel.action) == ("host_oom", Action.GROW_HOST_MEMORY)
    assert "812 kB" in by_kernel.advice
    for kernel_log in (None, b"[1.2] eth0: link up\n"):
        killed = judged(WorkerEvidence(log=STEPS, exit_code=137, signal=9, kernel_log=kernel_log))
        assert (killed.failure_class, killed.refinement) == ("native_crash", "process_killed")
        assert killed.action is Action.RETRY_IN_PLACE


def test_a_shells_word_about_sigkill_is_no_more_than_the_signal():
    log = STEPS + b"run.sh: line 4:  4242 Killed                  python3 train.py\n"
    assert judged(WorkerEvidence(log=log, exit_code=137, signal=9)).refinement == "process_killed"


@pytest.mark.parametrize(("code", "signal"), [(139, 11), (134, 6), (135, 7), (139, 0)])
def test_a_signal_from_inside_is_a_native_crash(code, signal):
    verdict = judged(WorkerEvidence(log=STEPS, exit_code=code, signal=signal))
    assert (verdict.failure_class, verdict.refinement, verdict.basis) == ("native_crash", "", Basis.EXIT)


@pytest.mark.parametrize(("code", "signal"), [(143, 15), (130, 2), (143, 0)])
def test_a_signal_that_asks_to_end_is_an_interruption(code, signal):
    assert judged(WorkerEvidence(log=STEPS, exit_code=code, signal=signal)).failure_class == "interrupted"


def test_output_flushed_at_exit_does_not_clear_a_traceback():
    log = b'Traceback (most recent call last):\n  File "t.py", line 1, in f\nKeyError: 5\n' + STEPS
    assert judged(WorkerEvidence(log=log, exit_code=1)).failure_class == "user_code_error"
    assert judged(WorkerEvidence(log=log)).failure_class != "user_code_error"


def test_a_process_that_vanished_was_killed_and_a_machine_that_rebooted_serves_again():
    assert judged(WorkerEvidence(log=STEPS)).refinement == "process_killed"
    rebooted = judged(WorkerEvidence(log=STEPS, rebooted=True))
    assert (rebooted.failure_class, rebooted.action) == ("maintenance_event", Action.RETRY_IN_PLACE)


def test_silence_is_a_hang_with_its_phase():
    verdict = judged(WorkerEvidence(log=STEPS), silence_s=1900.0, phase="compile")
    assert verdict.failure_class == "hang"
    assert "1900 s during compile" in verdict.advice


def test_the_phase_is_told_of_other_ends_too():
    for worker in (WorkerEvidence(exit_code=137, signal=9), WorkerEvidence(), WorkerEvidence(exit_code=3)):
        assert "during checkpoint" in judged(worker, phase="checkpoint").advice


def test_a_code_that_nobody_knows_is_unknown_with_the_last_words():
    verdict = judged(WorkerEvidence(log=b"hello\nso long\n", exit_code=3))
    assert (verdict.failure_class, verdict.decisive_line) == ("unknown", "so long")
    assert "code 3" in verdict.advice


def test_an_absent_device_outranks_what_the_log_says_of_it():
    log = b"RuntimeError: Unable to initialize backend 'tpu': UNAVAILABLE: No TPU Platform available.\n"
    verdict = judged(WorkerEvidence(log=log, exit_code=1, devices=0))
    assert (verdict.failure_class, verdict.action, verdict.basis) == ("tpu_not_found", Action.RECREATE, Basis.DEVICE)
    assert judged(WorkerEvidence(log=KEY_ERROR, exit_code=1, devices=0)).failure_class == "user_code_error"


def test_a_symptom_speaks_where_the_log_does_not():
    verdict = judged(WorkerEvidence(log=STEPS, exit_code=1), symptoms=("HBM_OUT_OF_MEMORY",))
    assert verdict.failure_class == "hbm_oom"


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ApiError(403, "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "x"), "insufficient_scopes"),
        (ApiError(403, "SERVICE_DISABLED", "x"), "api_disabled"),
        (ApiError(403, "IAM_PERMISSION_DENIED", "x"), "permission_denied"),
        (ApiError(403, "quotaExceeded", "x"), "quota_exceeded"),
        (ApiError(429, "", "x"), "api_transient"),
        (ApiError(503, "", "x"), "api_transient"),
        (ApiError(409, "", "x"), "resource_conflict"),
        (ApiError(200, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "x"), "stockout"),
        (ApiError(418, "A_REASON_OF_NEXT_YEAR", "x"), "unknown"),
        (ApiError(403, "", "Quota limit 'TPUV4' has been exceeded. Limit: 0"), "quota_exceeded"),
        (ApiError(429, "", 'There is no more capacity in the zone "z-a"'), "stockout"),
        (ApiError(403, "SERVICE_DISABLED", "Quota limit 'TPUV4' has been exceeded"), "api_disabled"),
    ],
)
def test_a_refused_calls_reason_goes_before_its_status(error, wanted):
    assert judged(api_errors=(error,)).failure_class == wanted


def test_a_stop_on_request_is_never_a_failure():
    verdict = judged(WorkerEvidence(log=SOCKET, exit_code=143, signal=15), interrupted=True)
    assert verdict.failure_class == "interrupted"


def test_the_voice_of_a_taken_machine_is_no_cause_of_its_own():
    verdict = judged(WorkerEvidence(0, SOCKET, exit_code=1), vm_events=("compute.instances.preempted",))
    assert verdict.failure_class == "preempted"


def test_nothing_at_all_is_unknown():
    assert diagnose(Evidence(())).failure_class == "unknown"


@pytest.mark.parametrize("pattern", [r"tick #(\d+)", r"(?=tick)tick #\d+"], ids=["RE2 reads it", "RE2 does not"])
def test_the_environments_own_progress_lines_clear_what_came_before(pattern):
    log = b"WARNING:absl:No GPU/TPU found, falling back to CPU.\n" + b"".join(b"tick #%d\n" % n for n in range(1, 9))
    worker = WorkerEvidence(log=log + b"Traceback (most recent call last):\nKeyError: 5\n", exit_code=1)
    wanted = "user_code_error" if "?=" not in pattern else "tpu_not_found"
    assert judged(worker, progress=pattern).failure_class == wanted


def test_announced_maintenance_is_no_excuse_for_the_programs_own_bug():
    announced = (
        {"node_health": "UNHEALTHY_MAINTENANCE"},
        {"vm_events": ("compute.instances.terminateOnHostMaintenance",)},
    )
    for known in announced:
        assert judged(WorkerEvidence(log=KEY_ERROR, exit_code=1), **known).failure_class == "user_code_error"
        assert judged(WorkerEvidence(log=SOCKET, exit_code=1), **known).failure_class == "maintenance_event"


def test_the_environments_own_messages_and_progress_are_known():
    own = (
        ("own.yaml", "version: 1\nfamily: mine\nsignatures:\n- {id: flux, class: data_corrupt, match: 'flux {n}'}\n"),
    )
    worker = WorkerEvidence(log=b"flux 7\n", exit_code=1)
    assert judged(worker).failure_class == "unknown"
    verdict = judged(worker, signatures=own)
    assert (verdict.failure_class, verdict.signature) == ("data_corrupt", "flux")
    advanced = WorkerEvidence(log=b"flux 7\nround=8\n", exit_code=None, rebooted=True)
    assert judged(advanced, signatures=own, progress=r"round=(\d+)").failure_class == "maintenance_event"


class Machine:
    """An agent that says what it is told to, or breaks."""

    def __init__(self, texts):
        self._texts = texts

    async def evidence(self):
        if self._texts is None:
            raise Unreachable("it is gone")
        return self._texts


class Api:
    """A cloud that shows one node."""

    def __init__(self, shown):
        self._shown = shown

    async def node(self, place, name):
        if self._shown is None:
            raise Transient("busy")
        return self._shown


NODE = Node("n1", Place("p", "z-a"), "7", "READY", "HEALTHY", "v3-8", "r", spot=False, labels={}, workers=())
MACHINE = {
    "kernel.txt": b"[    1.000000] Out of memory: Killed process 3 (python3)\n",
    "kernel-attempt.txt": b"",
    "machine.json": b'{"device_files": 4, "preempted": "TRUE", "maintenance-event": "NONE"}',
}


@pytest.mark.parametrize(
    ("texts", "shown", "wanted"),
    [
        (MACHINE, NODE, (NODE, b"", 4, ("compute.instances.preempted",))),
        ({"machine.json": b'{"preempted": ""}'}, NODE, (NODE, None, None, ())),
        ({"machine.json": b"nonsense"}, replace(NODE, id="8"), (None, None, None, ())),
        (None, None, (None, None, None, ())),
    ],
)
async def test_machine_and_api_are_asked_and_their_silence_is_said(texts, shown, wanted, tmp_path):
    journal = Journal(SystemClock(), tmp_path / "spool.jsonl")
    found = await look(Machine(texts), NODE, Api(shown), journal)
    assert (found.node, found.kernel_log, found.devices, found.events) == wanted
    said = (tmp_path / "spool.jsonl").read_text().count("evidence.incomplete") if texts is None else 0
    assert said == (2 if texts is None else 0)


def test_a_kill_before_this_attempt_is_not_taken_for_this_ones():
    known = WorkerEvidence(exit_code=137, signal=9, kernel_log=found_in(MACHINE).kernel_log)
    verdict = judged(known)
    assert (verdict.failure_class, verdict.refinement) == ("native_crash", "process_killed")
    now = {**MACHINE, "kernel-attempt.txt": MACHINE["kernel.txt"]}
    assert judged(replace(known, kernel_log=found_in(now).kernel_log)).failure_class == "host_oom"
