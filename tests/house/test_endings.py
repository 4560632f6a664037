"""How tasks end, as their callers see it: real processes, their codes and what they printed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TASKS = Path(__file__).parent / "endings"
INVOKE = [str(Path(sys.executable).parent / "invoke"), "--search-root", str(TASKS)]
TPUOPS = [str(Path(sys.executable).parent / "tpuops")]


def ended(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INVOKE, *words], capture_output=True, text=True, check=False, timeout=30, **options)


def _hearing_signals() -> None:
    """A shell's background job ignores SIGINT, `nohup` SIGHUP, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def begun(name: str, *words: str) -> subprocess.Popen[str]:
    """A task that waits; returns when it does."""
    process = subprocess.Popen(
        [*INVOKE, name, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hearing_signals,  # noqa: PLW1509 - nothing here holds a lock
    )
    assert process.stderr.readline() == "waiting\n"
    return process


def test_standard_flags_reach_the_body_and_progress_never_reaches_stdout() -> None:
    result = ended("echo", "-e", "v3-8", "--cloud", "local", "-v", "--dry-run", "--json")
    assert json.loads(result.stdout) == {"env": "v3-8", "cloud": "local", "verbose": True, "dry_run": True}
    assert result.stderr == "a library prints this\n"
    assert result.returncode == 0


def test_the_environment_may_come_from_a_variable() -> None:
    result = ended("echo", "--json", env={**os.environ, "TPUOPS_ENV": "nightly"})
    assert json.loads(result.stdout)["env"] == "nightly"


def test_no_environment_named_is_exit_2_with_the_way_out() -> None:
    result = ended("echo")
    assert result.returncode == 2
    assert result.stderr.startswith("error: no environment is named\n\nhint: add --env NAME")


def test_an_unknown_cloud_is_a_usage_error() -> None:
    result = ended("echo", "--cloud", "moon", "-e", "x")
    assert (result.returncode, result.stdout) == (1, "")
    assert "--cloud takes google or local" in result.stderr


def test_a_known_error_shows_what_where_evidence_and_hint() -> None:
    result = ended("wrong-file")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == ("error: v3-8.yaml has 1 problem\n  v3-8.yaml:3: zone: unknown\n\nhint: edit line 3\n")


def test_a_known_error_is_one_document_with_json() -> None:
    result = ended("wrong-file", "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout) == {
        "error": {
            "class": "EnvironmentFileError",
            "message": "v3-8.yaml has 1 problem",
            "evidence": ["v3-8.yaml:3: zone: unknown"],
            "hint": "edit line 3",
        },
        "exit_code": 2,
    }


def test_an_error_keeps_the_document_beside_it() -> None:
    result = ended("failed-run", "--json")
    document = json.loads(result.stdout)
    assert (result.returncode, document["exit_code"], document["attempts"]) == (6, 6, 3)
    assert document["error"]["message"] == "node n is left"


def test_a_bug_shows_its_traceback_says_so_and_exits_1() -> None:
    result = ended("bug", "--json")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "this is a bug in tpuops" in result.stderr
    assert json.loads(result.stdout)["error"]["evidence"] == ["ZeroDivisionError: integer division or modulo by zero"]


def test_of_several_errors_the_gravest_counts_and_none_is_lost() -> None:
    result = ended("several")
    assert result.returncode == 6
    assert "error: the node is left\n  also: the VM failed\n" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_full_disk_is_nobodys_bug() -> None:
    result = ended("full-disk")
    assert result.returncode == 3
    assert result.stderr.startswith("error: No space left on device: /var/x\n")


@pytest.mark.parametrize("task", ["wait", "wait-without-loop"])
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 143, "terminated")],
)
def test_a_signal_lets_the_task_clean_up_and_gives_its_code(task: str, number: int, code: int, word: str) -> None:
    process = begun(task)
    process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert process.returncode == code
    assert said == f"cleaned up\nerror: {word}\n"


def test_an_interrupted_task_prints_one_document_with_json() -> None:
    process = begun("wait", "--json")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert json.loads(out)["exit_code"] == process.returncode == 130


def test_ctrl_c_on_a_terminal_ends_with_130() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(INVOKE[0], [*INVOKE, "wait"])
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        seen = b""
        while b"waiting" not in seen:
            seen += screen.read(1024)
        os.write(terminal, b"\x03")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130


def test_a_second_ctrl_c_ends_at_once_and_says_so() -> None:
    process = begun("linger")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "cleaning up\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=5)
    assert process.returncode == 130
    assert "ended at once, before cleaning up" in said


def test_a_second_sigterm_does_not_cut_the_cleanup_short() -> None:
    process = begun("wait")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=10)
    assert (process.returncode, said) == (143, "cleaned up\nerror: terminated\n")


def test_a_signal_after_the_report_changes_nothing() -> None:
    process = begun("acknowledged")
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=10)
    assert (process.returncode, out, said) == (0, "done\n", "")


def test_what_may_still_bill_outranks_the_signal() -> None:
    process = begun("leak")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=10)
    assert (process.returncode, said) == (6, "error: node n is left\n")


def test_a_signal_during_a_slow_import_is_not_lost() -> None:
    process = begun("blocked")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert (process.returncode, said) == (130, "imported\nerror: interrupted\n")


def test_a_reader_that_leaves_ends_the_stream_quietly() -> None:
    process = subprocess.Popen([*INVOKE, "stream"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(10) == 0


def test_a_run_goes_on_when_nobody_reads_its_progress() -> None:
    process = subprocess.Popen([*INVOKE, "chatter"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stderr.close()
    assert process.stdout.read() == "finished\n"
    process.stdout.close()
    assert process.wait(10) == 0


@pytest.mark.parametrize("program", [INVOKE, TPUOPS], ids=["invoke", "tpuops"])
@pytest.mark.parametrize("words", [["no-such-task"], ["--no-such-flag"], ["check", "--nope"], ["cloud.start", "extra"]])
def test_usage_errors_are_invokes_own(program: list[str], words: list[str]) -> None:
    result = subprocess.run([*program, *words], capture_output=True, text=True, check=False, timeout=30)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "No idea what" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_command_stopped_before_any_task_began_says_so_by_its_code() -> None:
    slow = "import time, tpuops.program as p; "
    slow += "p.Program = lambda **_: (print('begun', flush=True), time.sleep(60)); p.main()"
    process = subprocess.Popen([sys.executable, "-c", slow], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    assert process.wait(10) == 130
