"""A machine for the agent, and a bucket on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.templates.machine import Here
from tests.templates.storage_server import StorageServer


@pytest.fixture
def here(home: Path) -> Iterator[Here]:
    machine = Here(home)
    yield machine
    machine.over()


@pytest.fixture
def storage() -> Iterator[StorageServer]:
    server = StorageServer()
    yield server
    server.close()
