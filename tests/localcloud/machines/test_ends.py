"""However a cloud ends, nothing of its machines is left: no process, no port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

CLOUD = """
import asyncio, sys
from pathlib import Path
from tpuops.localcloud.core.events import MachineSpec
from tpuops.localcloud.machines import Machines

async def main():
    booted = asyncio.Event()
    machines = Machines(Path(sys.argv[1]), "http://127.0.0.1:9/k-path", int(sys.argv[3]), lambda notice: booted.set())
    script = {"startup-script": "setsid nohup sleep 1000 & disown; exec sleep 1000"}
    spec = MachineSpec("1-0", "n", "tpu", "p", "us-central1-a", sys.argv[2], "host", "v3-8", 0, script, 1, "", (), 8)
    await machines.start(spec)
    await booted.wait()
    print(machines.running()["1-0"], flush=True)
    END

asyncio.run(main())
"""


def cloud(site, tmp_path: Path, end: str) -> tuple[subprocess.Popen[str], str, set[int]]:
    """A cloud with one machine, as a process; its machine's address, and every process of the machine."""
    program = CLOUD.replace("END", textwrap.indent(end, "    ").strip())
    address = site.network.address(next(site.numbers))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    argv = [sys.executable, "-c", program, str(tmp_path / "state"), address, str(site.network.ssh_port)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    outer = int(process.stdout.readline())
    time.sleep(0.3)  # the start-up script's processes are there too
    family = descendants(outer)
    assert len(family) >= 5  # two of the sandbox, our program, the script and what it left behind
    return process, address, family


def descendants(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*(descendants(int(child)) for child in children))


def assert_gone(site, address: str, family: set[int], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while (left := {pid for pid in family if alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == set()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, site.network.ssh_port))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_close_returns_when_everything_is_gone(site, tmp_path) -> None:
    end = "sys.stdin.readline()\nawait machines.close()\nprint('closed', flush=True)\nawait asyncio.sleep(60)"
    process, address, family = cloud(site, tmp_path, end)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "closed\n"
    assert_gone(site, address, family, 0)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_killed_cloud_takes_its_machines_along(site, tmp_path, number) -> None:
    process, address, family = cloud(site, tmp_path, "await asyncio.sleep(60)")
    os.kill(process.pid, number)
    process.communicate()
    assert_gone(site, address, family, 2)
