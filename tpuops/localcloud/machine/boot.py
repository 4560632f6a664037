"""A machine's boot: give up privileges, read the boot document, open the door, run the start-up script, obey.

The boot document is the first line on standard input:
`{"listener": fd, "metadata": {...}, "environment": {...}, "key_delay_s": 0.0}`, and where the network is closed `way`,
a socket that connections to `cloud_port` come in by. Further lines are orders, each with a number `n` that its answer
carries. When standard input ends, the cloud is gone, and so is the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .accounts import Accounts, keys_of
from .confine import slim
from .doorway import open_doorway
from .gate import Gate
from .orders import Machine, Orders
from .processes import SPARED
from .scripts import run_script
from .sessions import Sessions, user_environment
from .sshd import Sshd, host_key

_LONGEST_LINE = 1 << 24  # metadata may hold 512 KB, more once quoted


def main(landlock: int, gate: Gate) -> None:
    """Run until the cloud goes. What was given up, and the gate, are as `confine` and `build` returned them."""
    SPARED.add(gate.keeper)
    _hear_signals()
    voice = _voice()
    if sys.version_info < (3, 12):  # the default waits for children with one thread each
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    asyncio.run(_live(voice, gate, {"landlock": landlock, "gate": gate.version, "python": platform.python_version()}))


def _hear_signals() -> None:
    """A cloud started under `nohup` or in a shell's background ignores signals that a machine's processes must get."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _voice() -> BinaryIO:
    """Our line to the cloud; everything else that may be printed goes to the console."""
    voice = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return voice


async def _live(voice: BinaryIO, gate: Gate, about: dict[str, Any]) -> None:
    def say(words: Mapping[str, Any]) -> None:
        voice.write(json.dumps(words).encode() + b"\n")

    ears = await _ears()
    boot = json.loads(await ears.readline())
    listener = socket.socket(fileno=boot["listener"])
    listener.set_inheritable(False)
    accounts, key = Accounts(metadata=boot["environment"]["GCE_METADATA_HOST"]), host_key()
    root = user_environment(boot["environment"], "root")
    sshd = Sshd(listener, accounts, Sessions(boot["environment"]), key)
    machine = Machine(dict(boot["metadata"]), root, accounts, sshd, float(boot["key_delay_s"]), gate)
    orders = Orders(machine, say)
    accounts.replace(keys_of(machine.metadata))
    if boot.get("way") is not None:
        way = socket.socket(fileno=boot["way"])
        way.set_inheritable(False)
        await open_doorway(way, boot["cloud_port"])
    await sshd.start()
    shown = " ".join(key.export_public_key().decode().split()[:2])
    about["boot_s"] = _age_s()
    say({"notice": "booted", "host_keys": [shown], "agent": about})
    slim()
    starting = asyncio.create_task(run_script("startup-script", machine.metadata, root))
    await _obey(ears, orders, say)
    starting.cancel()


def _age_s() -> float:
    """Seconds since this process was started (proc_pid_stat(5), field 22, in ticks after the host's boot)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return round(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 2)


async def _ears() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _obey(ears: asyncio.StreamReader, orders: Any, say: Any) -> None:
    """Carry out orders one after the other until there is nobody left to give any."""
    while line := await ears.readline():
        order = json.loads(line)
        say({"answer": order.get("n"), "result": await orders.carry_out(order)})
