"""A machine that answers SSH, and the key of an environment that it knows."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.remote.server import Machine
from tpuops.remote import keys
from tpuops.remote.ssh import SshConnector


@pytest.fixture
def own(home: Path) -> keys.OwnKey:
    return keys.own_key(home / "state")


@pytest.fixture
def connector(own: keys.OwnKey) -> SshConnector:
    return SshConnector(own.path)


@pytest_asyncio.fixture
async def machine(home: Path, own: keys.OwnKey) -> AsyncIterator[Machine]:
    there = Machine(home / "there")
    there.home.mkdir()
    there.authorized.append(own.public_line)
    await there.open()
    yield there
    program = next((there.home / ".tpuops").glob("agent-*.pyz"), None)
    if program is not None:
        env = {"HOME": str(there.home), "TMUX_TMPDIR": str(there.home), "PATH": "/usr/bin:/bin"}
        subprocess.run(["/usr/bin/python3", program, "stop", "0"], env=env, capture_output=True, check=True)
        subprocess.run(["tmux", "kill-server"], env=env, capture_output=True, check=False)
    await there.end()
