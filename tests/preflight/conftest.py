"""A machine for the agent whose lock file is its own, and a bucket on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.templates.machine import Here
from tests.templates.storage_server import StorageServer
from tpuops import templates


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "libtpu_lockfile"


@pytest.fixture
def here(home: Path, tmp_path: Path, lock: Path) -> Iterator[Here]:
    machine = Here(home)
    folder = tmp_path / "agent"
    folder.mkdir()
    for path in templates.folder("worker/agent").glob("*.py"):
        (folder / path.name).write_text(path.read_text().replace('"/tmp/libtpu_lockfile"', repr(str(lock))))
    machine.program = folder
    yield machine
    machine.over()


@pytest.fixture
def storage() -> Iterator[StorageServer]:
    server = StorageServer()
    yield server
    server.close()
