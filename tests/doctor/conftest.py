"""One embedded cloud per module, emptied for each test, and `doctor` typed as a user's process in a private home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cloud_fixture import LocalCloud
from tests.messages import documents

from .forge import Forge

PROJECT = "local-tests"
AUTH = "https://www.googleapis.com/auth/"
ADA = "ada@example.com"
MACHINES = "909171607979-compute@developer.gserviceaccount.com"
"""The default account of local-tests."""
FILE = """
version: 1
cloud: local
project: local-tests
zone: us-central1-a
tpu: {accelerator: v3-8, runtime: tpu-ubuntu2204-base}
vm: {machine_type: e2-small}
train:
  source: ../source
  command: [python3, train.py]
  outputs: [outputs]
"""


@dataclass
class Clinic:
    """A user's folder with one environment, their home, and the embedded cloud. `env` is what their shell exports."""

    folder: Path
    home: Path
    cloud: LocalCloud
    env: dict[str, str]
    forge: Forge

    def write(self, text: str = FILE, **changes: str) -> None:
        """The environment file `tiny`, with words replaced."""
        for old, new in changes.items():
            text = text.replace(f"<{old}>", new)
        for name in ("environments", "source"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "source" / "train.py").write_text("print('step=1')\n")
        (self.folder / "environments" / "tiny.yaml").write_text(text)

    def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`tpuops WORDS` as a process, forked from one that has imported what takes seconds."""
        return self.forge.run(words, self.folder, self.env)

    def typed_anew(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`tpuops WORDS` as a process that starts from nothing, as a shell starts it."""
        command = [str(Path(sys.executable).parent / "tpuops"), *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=100, check=False
        )

    def run(self, *words: str, code: int = 0) -> dict[str, Any]:
        """A command's `--json` document, held against its schema."""
        return self.document(self.typed(*words, "--json"), code)

    def document(self, done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
        """What a command with `--json` said."""
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        document = json.loads(done.stdout)
        documents.check(next(word for word in (*done.args, "") if not str(word).endswith("/tpuops")), document)
        return dict(document)

    def doctor(self, *words: str, code: int = 0) -> Seen:
        """What `tpuops doctor --env tiny` found; its exit code must be `code`."""
        document = self.run("doctor", "--env", "tiny", *words, code=code)
        return Seen(document)

    def access(self, **rules: Any) -> None:
        """Set the embedded cloud's rules (`/_cloud/access`). Machines may do what they may in most projects."""
        if "bindings" in rules:
            rules["bindings"] = {MACHINES: ["roles/editor"], **rules["bindings"]}
        self.cloud.ask("POST", "/_cloud/access", rules)


@dataclass
class Seen:
    """A doctor's document, by check."""

    document: dict[str, Any]

    def __getitem__(self, check: str) -> dict[str, Any]:
        """One check's finding."""
        return next(row for row in self.document["findings"] if row["check"] == check)

    def is_broken(self, check: str, kind: str, hint: str) -> None:
        """The check is broken, of that class, and its hint holds these words."""
        found = self[check]
        assert (found["state"], found["class"]) == ("broken", kind), found
        assert hint in found["hint"], found


@pytest.fixture(scope="module")
def module_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """API objects alone: nodes become READY, nothing boots."""
    served = LocalCloud(tmp_path_factory.mktemp("c") / "cloud", "--seed", "1", "--no-machines")
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs that a user has, but for gcloud, which takes a second: a test about it adds it."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("sh", "ssh", "ssh-keygen", "ssh-add", "tmux", "bwrap", "unshare", "python3"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    """What the processes of users are forked from."""
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def clinic(module_cloud: LocalCloud, forge: Forge, tools: Path, tmp_path: Path, home: Path) -> Clinic:
    """An empty cloud that lets everybody do everything, and a user with an empty home."""
    module_cloud.ask("POST", "/_cloud/reset")
    own = {"TPUOPS_STATE": str(module_cloud.state.parent), "TPUOPS_OWNER": "ada", "PATH": str(tools)}
    made = Clinic(tmp_path, home, module_cloud, {**os.environ, **own}, forge)
    made.write()
    return made
