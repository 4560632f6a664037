"""Several workers: the loudest log is an echo, and the cause is named all the same."""

import pytest

from tpuops.diagnosis import diagnose, report_of
from tpuops.diagnosis.verdict import Evidence, WorkerEvidence

STEPS = b"".join(
    b"I0301 10:00:%02d.000000 1 trainer.py:5] completed step: %d, loss: 0.5\n" % (n, n) for n in range(1, 30)
)
HEARTBEAT = (
    b"2026-03-01 10:02:10.000000: E coordination_service.cc:954] UNAVAILABLE: Task /job:jax_worker/replica:0/task:2 "
    b"heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed unexpectedly.\n"
)
LOUD_ECHO = STEPS + HEARTBEAT * 200 + b"*** SIGABRT received by PID 9 (TID 9) on cpu 1; stack trace: ***\n"
SOCKETS = STEPS + b'2026-03-01 10:02:00.1: W master.cc:1] RPC failed with status = "Unavailable: Socket closed"\n' * 500
CAUSES = {
    "user_code_error": STEPS
    + b"Traceback (most recent call last):\n  File \"train.py\", line 9, in f\nKeyError: 'y'\n",
    "host_oom": STEPS + b"[99.1] Out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB\n",
    "hbm_oom": STEPS
    + b"XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 2G of 1G hbm.\n",
    "tpu_hardware_fault": STEPS + b"E0301 10:01:00.0 1 drv.cc:1] !!!! FATAL ERROR !!!! for [/dev/accel1 x]\n",
    "disk_full": STEPS + b"OSError: [Errno 28] No space left on device\n",
    "gcs_permission": STEPS + b"gs://b/o: HTTP response code 403 with body '{\n",
    "nan_loss": STEPS + b"Model diverged with loss = NaN.\n",
    "tpu_in_use": b"ABORTED: The TPU is already in use by process with pid 42.\n",
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("place", [0, 2, 3])
def test_the_quiet_cause_beats_loud_echoes(cause, place):
    logs = [LOUD_ECHO, SOCKETS, LOUD_ECHO, SOCKETS]
    logs[place] = CAUSES[cause]
    workers = tuple(WorkerEvidence(n, log, exit_code=1) for n, log in enumerate(logs))
    verdict = diagnose(Evidence(workers, node_state="READY"))
    assert (verdict.failure_class, verdict.worker) == (cause, place)
    assert {echo.failure_class for echo in verdict.echoes} & {"coordination_timeout", "grpc_unavailable"}


def test_a_killed_worker_without_a_word_beats_the_others_complaints():
    workers = (
        WorkerEvidence(0, LOUD_ECHO, exit_code=134, signal=6),
        WorkerEvidence(1, STEPS, exit_code=137, signal=9),
        WorkerEvidence(2, SOCKETS, exit_code=1),
    )
    verdict = diagnose(Evidence(workers, node_state="READY"))
    assert (verdict.failure_class, verdict.refinement, verdict.worker) == ("native_crash", "process_killed", 1)


def test_among_equals_the_earlier_clock_wins():
    late = b"2026-03-01 10:05:00.0: E x] OSError: [Errno 28] No space left on device\n"
    early = b"2026-03-01 10:01:00.0: E x] OSError: [Errno 28] No space left on device\n"
    workers = (WorkerEvidence(0, late, exit_code=1), WorkerEvidence(1, early, exit_code=1))
    assert diagnose(Evidence(workers)).worker == 1


def test_clocks_that_nearly_agree_decide_nothing():
    first = b"2026-03-01 10:01:01.0: E x] OSError: [Errno 28] No space left on device\n"
    second = b"2026-03-01 10:01:00.0: E x] OSError: [Errno 28] No space left on device\n"
    workers = (WorkerEvidence(0, first, exit_code=1), WorkerEvidence(1, second, exit_code=1))
    assert diagnose(Evidence(workers)).worker == 0


def test_an_interleaved_log_keeps_the_dead_processs_cause_while_others_step_on():
    lines = [b"[0] step=%d loss=1.0\n[3] step=%d loss=1.0\n" % (n, n) for n in range(1, 9)]
    dead = b"[3] MemoryError: Unable to allocate 8.0 GiB for an array\n"
    others = [b"[0] step=%d loss=1.0\n" % n for n in range(9, 12)]
    text = b"".join([*lines, dead, *others, b"[0] UNAVAILABLE: Task /job:jax_worker/task:3 heartbeat timeout\n"])
    assert report_of([text])["class"] == "host_oom"


def test_the_report_on_several_logs_says_which_holds_the_cause():
    documents = report_of([("worker-0.log", LOUD_ECHO), ("worker-1.log", CAUSES["user_code_error"])])
    assert [each["cause"] for each in documents] == [False, True]
    assert documents[0]["echo_of"] == {"file": "worker-1.log", "worker": 1, "class": "user_code_error"}
    assert documents[1]["decisive_line"] == "KeyError: 'y'"
    assert documents[1]["line_number"] == 32


def test_on_one_line_the_inner_message_beats_its_wrapper():
    text = b"Error code 13, message: Quota 'CPUS_ALL_REGIONS' exceeded. Limit: 8.0 globally.\n"
    assert report_of([text])["class"] == "quota_exceeded"


CHAINED = (
    b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    b"FileNotFoundError: [Errno 2] No such file or directory: 'gs://b/ckpt/100'\n\n"
    b"The above exception was the direct cause of the following exception:\n\n"
    b'Traceback (most recent call last):\n  File "a.py", line 9, in g\nRuntimeError: could not restore\n'
)
WHILE_INTERRUPTED = (
    b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyboardInterrupt\n\n'
    b"During handling of the above exception, another exception occurred:\n\n"
    b"Traceback (most recent call last):\nNameError: name 'writer' is not defined\n"
)
CONTROL_FLOW = (
    b"Traceback (most recent call last):\nKeyError: 'tpu'\n\n"
    b"During handling of the above exception, another exception occurred:\n\n"
    b"Traceback (most recent call last):\n"
    b"RuntimeError: Unable to initialize backend 'tpu': UNAVAILABLE: No TPU Platform available.\n"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(CHAINED, "checkpoint_missing"), (WHILE_INTERRUPTED, "interrupted"), (CONTROL_FLOW, "tpu_not_found")],
    ids=["direct cause", "while interrupted", "control flow"],
)
def test_chained_tracebacks_are_read_to_the_true_cause(text, wanted):
    assert report_of([text])["class"] == wanted


def test_a_process_that_advanced_amid_the_others_progress_is_not_suspected():
    """Of interleaved processes each one's own progress counts, wherever in the block it stands."""
    others = [b"[1] step=%d loss=0.5\n" % n for n in range(1, 400)]
    log = [
        *others[:100],
        b"[0] UNAVAILABLE: Socket closed\n",
        *others[100:200],
        b"[0] step=7 loss=0.5\n",
        *others[200:],
    ]
    assert report_of([b"".join(log)])["class"] == "healthy"
    log.remove(b"[0] step=7 loss=0.5\n")
    assert report_of([b"".join(log)])["class"] == "grpc_unavailable"
