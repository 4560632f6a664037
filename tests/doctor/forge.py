"""Processes of `tpuops` that need not import Google's clients each for itself: forked from one that has.

Each is a process of its own, with its own folder, environment and streams; what takes seconds, it inherits. google-auth
reads the metadata server's address when it is imported, so that a test about that starts `tpuops` from nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PRELOADED = (
    "google.auth",
    "google.auth.transport.requests",
    "google.oauth2.service_account",
    "google.oauth2.credentials",
    "google.cloud.tpu_v2",
    "google.cloud.storage",
    "tpuops.program",
    "tpuops.doctor.checks",
    "tpuops.lifecycle.up",
    "tpuops.tasks.namespace",
)


class Forge:
    """The process that has imported everything; `run` forks it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """`tpuops WORDS` to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as name:
            out, err = Path(name, "out"), Path(name, "err")
            order = {"words": list(words), "folder": str(folder), "env": dict(env), "out": str(out), "err": str(err)}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    importlib.import_module(
        "tpuops.cloud.compute"
    )._library()  # the few clients of Compute Engine that are used, out of a hundred
    assert "google.auth.compute_engine._metadata" not in sys.modules
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _become(order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(order: Mapping[str, object]) -> None:
    code = 70
    try:
        os.setsid()
        os.chdir(str(order["folder"]))
        os.environ.clear()
        os.environ.update(order["env"])  # type: ignore[call-overload]
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(str(order[name]), os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.argv = ["tpuops", *order["words"]]  # type: ignore[misc]
        importlib.import_module("tpuops.program").main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    _serve()
