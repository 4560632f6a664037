"""An embedded cloud as a process of its own, for tests of any folder.

Import the fixtures into a conftest: `from tests.cloud_fixture import bare_cloud, cloud  # noqa: F401`. `cloud` runs
real machines in sandboxes; `bare_cloud` serves API objects alone, which is all that most tests need and starts faster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 20.0


class LocalCloud:
    """One embedded cloud. `url` has no slash at its end; `project` is one that it likes."""

    project = "local-tests"
    zone = "us-central1-a"

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.ssh_port = 0

    def start(self) -> None:
        """Serve, and return when it answers."""
        command = [sys.executable, "-P", "-m", "tpuops.localcloud", "serve", "--state", str(self.state), *self._options]
        log = self.state.parent / f"{self.state.name}.log"
        with log.open("ab") as sink:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            endpoint = self._endpoint()
            if endpoint.get("pid") == self._process.pid:
                self.url, self.ssh_port = endpoint["url"], endpoint["ssh_port"]
                return
            time.sleep(0.02)
        self.stop()
        raise AssertionError(f"the embedded cloud did not start: {log.read_text()}")

    def stop(self) -> int:
        """SIGTERM, and its exit code; nothing where it does not run."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what was acknowledged must be there after the next start."""
        self._end(signal.SIGKILL)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def requests(self, after: int = 0, **fields: Any) -> list[dict[str, Any]]:
        """The request log after entry `after`, only entries with these fields (`mutating=True`, `service="tpu"`)."""
        entries = self.ask("GET", f"/_cloud/requests?after={after}")["requests"]
        return [entry for entry in entries if all(entry[name] == value for name, value in fields.items())]

    def faults(self) -> list[dict[str, Any]]:
        """The fault script, each fault with `fired_at`."""
        return list(self.ask("GET", "/_cloud/faults")["faults"])

    def add_faults(self, script: Any) -> None:
        """Append a fault script."""
        self.ask("POST", "/_cloud/faults", script)

    def status(self) -> dict[str, Any]:
        """What there is."""
        return dict(self.ask("GET", "/_cloud/status"))

    def ask(self, verb: str, path: str, body: Any = None) -> Any:
        """One JSON call to a path behind the key. Raises urllib.error.HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data=data, method=verb)
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as reply:
            return json.loads(reply.read() or b"{}")

    def _endpoint(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.state / "endpoint.json").read_text()))
        except (OSError, ValueError):
            return {}

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        code = self._process.wait(PATIENCE_S)
        self._process = None
        return code


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LocalCloud]:
    """An embedded cloud with real machines."""
    yield from _serving(LocalCloud(tmp_path / "cloud", "--seed", "1"))


@pytest.fixture
def bare_cloud(tmp_path: Path) -> Iterator[LocalCloud]:
    """An embedded cloud without machines: API objects only."""
    yield from _serving(LocalCloud(tmp_path / "cloud", "--seed", "1", "--no-machines"))


def _serving(served: LocalCloud) -> Iterator[LocalCloud]:
    served.start()
    try:
        yield served
    finally:
        served.stop()
