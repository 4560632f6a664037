"""`tpuops diagnose` as a real process: files, standard input, several logs, and what it refuses."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TPUOPS = Path(sys.executable).parent / "tpuops"
BUG = b"""step=1 loss=1.0
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    print(layers["conv"])
KeyError: 'conv'
"""
HEALTHY = b"step=1 loss=1.0\nstep=2 loss=0.9\n"


def tpuops(*words: str | Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([TPUOPS, "diagnose", *words], input=data, capture_output=True, check=False, timeout=30)


def document(*words: str | Path, data: bytes = b"") -> Any:
    done = tpuops(*words, "--json", data=data)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture
def bug(tmp_path: Path) -> Path:
    path = tmp_path / "worker-1.log"
    path.write_bytes(BUG)
    return path


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    path = tmp_path / "worker-0.log"
    path.write_bytes(HEALTHY)
    return path


def test_a_log_is_explained_with_its_line_and_what_would_be_done(bug: Path) -> None:
    found = document(bug)
    assert found["class"] == "user_code_error"
    assert found["action"] == "fix_code_or_model"
    assert (found["decisive_line"], found["line_number"]) == ("KeyError: 'conv'", 5)
    assert found["confidence"] in {"high", "medium", "low"}
    assert found["advice"]


def test_standard_input_and_gzip_are_logs_too(bug: Path, tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(BUG))
    lines = {document(*given)["line_number"] for given in ((bug,), (packed,))}
    assert lines | {document("-", data=BUG)["line_number"]} == {5}


def test_a_healthy_log_is_healthy_and_an_empty_one_is_no_crash(healthy: Path) -> None:
    assert document(healthy)["class"] == "healthy"
    assert document("-")["class"] in {"healthy", "unknown"}


def test_several_logs_give_a_list_in_their_order_with_one_cause(healthy: Path, bug: Path) -> None:
    found = document(healthy, "--more", bug)
    assert [each["class"] for each in found] == ["healthy", "user_code_error"]
    assert [each["cause"] for each in found] == [False, True]
    assert len(document(healthy, "--more", bug, "--more", healthy)) == 3


def test_a_shape_is_a_type_or_a_number_with_its_traits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"step=1\nRuntimeError: TPU device error: SLICE_FAILURE_CHIP_DRIVER_ERROR\n")
    one = document(log)
    for shape in ("v3-8", "v4-32,spot", "4,queued", "v5e-8"):
        assert document(log, "--shape", shape)["class"] == one["class"]
    refused = tpuops(log, "--shape", "v9-3")
    assert refused.returncode == 1
    assert b"v9-3" in refused.stderr


def test_explain_names_the_messages_that_fired(bug: Path) -> None:
    assert b"why:" in tpuops(bug, "--explain").stdout
    assert b"why:" not in tpuops(bug).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(("/nowhere/train.log",), b"cannot read /nowhere/train.log"), (("-", "--more", "-"), b"can be read once")],
)
def test_what_cannot_be_read_is_said_in_one_line(words: tuple[str, ...], said: bytes) -> None:
    done = tpuops(*words)
    assert done.returncode == 1
    assert said in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


def test_nothing_in_a_log_reaches_the_terminal_as_a_control_code() -> None:
    hostile = b"step=1\n\x1b]0;owned\x07RuntimeError: \x1b[2J\x07\x08bad \xc2\x9b2J things\n"
    shown = tpuops("-", "--explain", data=hostile).stdout.decode()
    assert "bad" in shown
    assert [letter for letter in shown if letter != "\n" and not letter.isprintable()] == []


def test_no_client_library_is_loaded_for_it(bug: Path) -> None:
    program = (
        "import sys\nfrom tpuops.program import main\n"
        f"try:\n    main(['tpuops', 'diagnose', {str(bug)!r}])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('google', 'asyncssh', 'pydantic')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines()[-1] == "[]"
