"""A machine for the agent: a home and a tmux folder of its own, real processes, and a bucket on loopback."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpuops import templates

RUN = f"r{os.getpid()}"
"""A run's id. The agent ends what carries its run's id, and here it sees all of the host: others test it too."""


class Here:
    """This machine, as the agent sees it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.program = home / "agent.pyz"
        self.program.write_bytes(templates.agent_program())
        self.env = {**os.environ, "HOME": str(home), "TMUX_TMPDIR": str(home)}

    def popen(self, *words: str, **kwargs: Any) -> subprocess.Popen[bytes]:
        python = os.environ.get("TPUOPS_AGENT_PYTHON", sys.executable)
        argv = [python, "-I", "-S", str(self.program), *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **kwargs}
        return subprocess.Popen(argv, env=self.env, **pipes)

    def replies(self, *words: str, data: bytes = b"") -> list[dict[str, Any]]:
        process = self.popen(*words)
        out, _ = process.communicate(data, timeout=60)
        return [json.loads(line) for line in out.splitlines()]

    def ask(self, *words: str, data: bytes = b"") -> Any:
        """The `ok` of the last reply."""
        last = self.replies(*words, data=data)[-1]
        assert "ok" in last, last
        return last["ok"]

    def refused(self, *words: str, data: bytes = b"") -> dict[str, Any]:
        """The `error` of the last reply."""
        error: dict[str, Any] = self.replies(*words, data=data)[-1]["error"]
        return error

    def spec(self, code: str, attempt: int = 1, **more: Any) -> bytes:
        command = [sys.executable, "-c", code]
        return json.dumps({"run_id": RUN, "attempt": attempt, "command": command, **more}).encode()

    def start(self, code: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
        status: dict[str, Any] = self.ask("start", data=self.spec(code, attempt, **more))
        return status

    def attempt(self, name: str, attempt: int = 1) -> Path:
        return self.home / ".tpuops" / "runs" / RUN / str(attempt) / name

    def pids(self, attempt: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.attempt("pid.json", attempt).read_text())
        return found

    def tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", *words], env=self.env, capture_output=True, text=True, check=False).stdout

    def followed(self, attempt: int = 1, offset: int = 0) -> tuple[bytes, dict[str, Any]]:
        """The whole log from `offset` on and the end, as `follow` pushed them."""
        process = self.popen("follow", RUN, str(attempt), str(offset))
        log, end = b"", {}
        for line in process.stdout or ():
            document = json.loads(line)
            if "ok" in document:
                end = document["ok"]
            else:
                assert document["offset"] == offset + len(log)
                log += base64.b64decode(document["data"])
        process.communicate(timeout=10)
        return log, end

    def over(self) -> None:
        self.ask("stop", "0")
        self.tmux("kill-server")


def until(done: Callable[[], Any], limit_s: float = 20.0) -> Any:
    """Waits for something to become true, and gives it back."""
    end = time.monotonic() + limit_s
    while not (found := done()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
    return found


def tar_of(members: dict[str, Any]) -> bytes:
    """A tar with these members: bytes for files, a `TarInfo` for anything else."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            if isinstance(content, bytes):
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
