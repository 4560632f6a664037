"""One private embedded cloud per test, and the `tpuops` command driven as a user's process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.messages import documents
from tpuops import embedded

TRAINER = """
import os, sys, time
out = os.environ["TPUOPS_OUTPUTS"]
os.makedirs(out, exist_ok=True)
for step in range(int(os.environ.get("STEPS", "40"))):
    print(f"step={step} loss={1 / (step + 1):.3f}", flush=True)
    time.sleep(float(os.environ.get("PACE", "0.02")))
open(os.path.join(out, "model.txt"), "w").write("weights")
"""

BUGGY = """
import os
out = os.environ["TPUOPS_OUTPUTS"]
os.makedirs(out, exist_ok=True)
open(os.path.join(out, "partial.txt"), "w").write("half a model")
print("step=0 loss=1.0", flush=True)
layers = {"dense": 1}
print(layers["conv"])
"""


@dataclass
class User:
    """A folder with one environment, its state folder, and the command to drive it."""

    folder: Path
    env: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return Path(self.env["TPUOPS_STATE"]) / "cloud"

    @property
    def program(self) -> Path:
        return Path(sys.executable).parent / "tpuops"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [str(self.program), *words]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        asyncio.run(embedded.stop(self.state))

    def run(self, *words: str, code: int = 0, timeout_s: float = 90) -> dict[str, Any]:
        process = self.start(*words, "--json")
        out, err = process.communicate(timeout=timeout_s)
        assert process.returncode == code, f"exit {process.returncode}\n{out.decode()}\n{err.decode()}"
        document = json.loads(out)
        documents.check(words[0], document)
        return dict(document)

    def requests(self, after: int = 0) -> list[dict[str, Any]]:
        stage = embedded.status(self.state)
        assert stage is not None
        return list(embedded.ask(stage, "GET", f"/_cloud/requests?after={after}")["requests"])

    def standing(self) -> dict[str, Any]:
        stage = embedded.status(self.state)
        assert stage is not None
        return dict(embedded.ask(stage, "GET", "/_cloud/status"))

    def write(self, program: str, **changes: str) -> None:
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        (source / "train.py").write_text(textwrap.dedent(program))
        text = ENVIRONMENT
        for key, value in changes.items():
            text = text.replace(f"<{key}>", value)
        for key, value in DEFAULTS.items():
            text = text.replace(f"<{key}>", value)
        (self.folder / "environments").mkdir(exist_ok=True)
        (self.folder / "environments" / "tiny.yaml").write_text(text)


DEFAULTS = {"steps": "40", "pace": "0.02", "success": "delete", "failure": "delete", "interrupt": "keep"}
ENVIRONMENT = r"""
version: 1
cloud: local
project: local-tests
zone: us-central1-a
tpu: {accelerator: v3-8, runtime: tpu-ubuntu2204-base}
vm: {machine_type: e2-small}
train:
  source: ../source
  command: [python3, train.py]
  env: {STEPS: "<steps>", PACE: "<pace>"}
  outputs: [outputs]
  progress: 'step=(\d+)'
teardown: {success: <success>, failure: <failure>, interrupt: <interrupt>}
"""


def made_user(folder: Path, owner: str = "ada") -> User:
    """A user of their own name in a folder with one environment; `end` it."""
    env = {**os.environ, "TPUOPS_STATE": str(folder / "state"), "TPUOPS_ENV": "tiny", "TPUOPS_OWNER": owner}
    made = User(folder, env)
    made.write(TRAINER)
    return made


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    made = made_user(tmp_path)
    yield made
    made.end()


@pytest.fixture
def until() -> Callable[..., Any]:
    def wait(claim: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if (found := claim()) not in (None, False):
                return found
            time.sleep(0.05)
        raise AssertionError("it never came true")

    return wait


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, as the kernel or an impatient person does it."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
