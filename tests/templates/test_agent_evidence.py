"""What explains a failure, and making the device free again."""

from __future__ import annotations

import ast
import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.templates.machine import RUN, Here, until
from tpuops import templates

SOURCES = sorted(templates.folder("worker/agent").glob("*.py"))


def test_each_text_is_bounded_and_what_cannot_be_read_is_said(here: Here) -> None:
    logs = here.home / "tpu_logs"
    logs.mkdir()
    (logs / "tpu_driver.INFO").write_bytes(b"x" * 1_000_000 + b"the end")
    here.env["TPU_LOG_DIR"] = str(logs)
    path, here.env["PATH"] = here.env["PATH"], "/nowhere"
    texts = {name: base64.b64decode(data) for name, data in here.ask("evidence").items()}
    here.env["PATH"] = path
    assert {"kernel.txt", "devices.txt", "disk.txt", "memory.txt", "processes.txt"} <= set(texts)
    assert texts["libtpu/tpu_driver.INFO"].endswith(b"the end")
    assert all(len(data) <= 70_000 for data in texts.values())
    assert b"could not be read" in texts["disk.txt"]


def test_clear_is_refused_while_a_run_lives(here: Here) -> None:
    here.start("import time; time.sleep(600)")
    assert here.refused("clear")["kind"] == "busy"


def test_clear_ends_our_stale_holder_and_no_strangers(here: Here, tmp_path: Path) -> None:
    lock = tmp_path / "libtpu_lockfile"
    program = here.program.read_bytes()
    here.program.write_bytes(program)
    folder = tmp_path / "agent"
    folder.mkdir()
    for path in SOURCES:
        text = path.read_text().replace('"/tmp/libtpu_lockfile"', repr(str(lock)))
        (folder / path.name).write_text(text)
    here.program = folder
    hold = f"import time; f = open({str(lock)!r}, 'a'); print('held', flush=True); time.sleep(600)"
    ours = subprocess.Popen([sys.executable, "-c", hold], env={**here.env, "TPUOPS_RUN_ID": "old"})
    stranger = subprocess.Popen([sys.executable, "-c", hold])
    try:
        until(lambda: sum(path.name.isdigit() and holds(path, lock) for path in Path("/proc").iterdir()) == 2)
        done = here.ask("clear")
        assert done["ended"] == [ours.pid] and not done["lock_removed"]
        assert [held[0] for held in done["held"]] == [stranger.pid]
        stranger.kill()
        stranger.wait()
        assert here.ask("clear")["lock_removed"] and not lock.exists()
    finally:
        for process in (ours, stranger):
            process.kill()
            process.wait()


def holds(process: Path, path: Path) -> bool:
    try:
        return any(str(fd.readlink()) == str(path) for fd in (process / "fd").iterdir())
    except OSError:
        return False


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_agent_is_python_3_8_and_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    own = {source.stem for source in SOURCES}
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert {name.partition(".")[0] for name in names} <= own | set(sys.stdlib_module_names)
        assert not (isinstance(node, ast.Attribute) and node.attr in NEWER), f"line {node.lineno}"


# Names that Python got after 3.8, of the modules that the agent uses.
NEWER = {
    "removeprefix", "removesuffix", "pidfd_open", "pidfd_send_signal", "is_relative_to", "readlink_path", "to_thread",
    "file_digest", "pairwise", "waitstatus_to_exitcode", "cache", "randbytes", "unparse",
}  # fmt: skip


def test_an_unknown_command_says_what_there_is(here: Here) -> None:
    done = subprocess.run([sys.executable, here.program, "nonsense"], capture_output=True, env=here.env, check=False)
    assert done.returncode == 2 and b"collect BUCKET PREFIX" in done.stderr


def test_a_hostile_spec_is_refused_not_run(here: Here) -> None:
    for command in ([], "rm -rf x", [1, 2]):
        spec = {"run_id": RUN, "attempt": 1, "command": command}
        assert here.refused("start", data=json.dumps(spec).encode())["kind"] == "usage"


def fake_dmesg(here: Here, lines: str) -> None:
    """A `dmesg` that says these lines, first on the machine's path."""
    tools = here.home / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "dmesg").write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
    (tools / "dmesg").chmod(0o755)
    here.env["PATH"] = f"{tools}:{here.env['PATH']}"


def test_the_kernels_lines_from_before_the_attempt_are_kept_apart(here: Here) -> None:
    fake_dmesg(
        here, "[    0.100000] Out of memory: Killed process 3\n[99999999.000000] Out of memory: Killed process 4"
    )
    texts = here.ask("evidence")
    assert "kernel-attempt.txt" not in texts
    here.start("pass")
    until(lambda: not here.ask("status")["alive"])
    texts = {name: base64.b64decode(data) for name, data in here.ask("evidence").items()}
    assert texts["kernel.txt"].count(b"Killed") == 2
    assert texts["kernel-attempt.txt"] == b"[99999999.000000] Out of memory: Killed process 4\n"
    assert set(json.loads(texts["machine.json"])) == {"preempted", "maintenance-event", "device_files"}
    here.env["TPUOPS_REHEARSAL"] = "1"
    rehearsed = here.ask("evidence")
    assert "kernel-attempt.txt" not in rehearsed
    assert "device_files" not in json.loads(base64.b64decode(rehearsed["machine.json"]))


def _states(pid: int) -> list[str]:
    """Of each thread of a process."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return [text.rpartition(")")[2].split()[0] for text in texts]


def test_the_stacks_tell_of_each_thread_where_it_stands(here: Here) -> None:
    here.start("import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); time.sleep(600)")
    pid = here.pids()["training"]["pid"]
    until(lambda: _states(pid) == ["S", "S"])
    lines = base64.b64decode(here.ask("evidence")["stacks.txt"]).decode().splitlines()
    threads = [line for line in lines if line.startswith(f"process {pid} thread ")]
    assert len(threads) == 2
    assert all("state S, waits in " in line for line in threads)
    here.ask("stop", "0")
    assert base64.b64decode(here.ask("evidence")["stacks.txt"]) == b"no training process lives\n"
