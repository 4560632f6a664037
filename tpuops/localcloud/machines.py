"""Real machines: each a sandbox with its own disk, sshd and processes, started, ordered about and ended by the cloud.

The server carries the core's events here and gets notices back. A machine whose cloud dies, dies with it. This module
knows nothing of Google's API and decides nothing: who may exist is the core's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .core.events import Booted, Crashed, LogLine, MachineSpec, Notice
from .disk import Disk, Interpreter, remove
from .package_index import package_index
from .running import Running, launch
from .sandbox import Sandbox, check_sandbox
from .surroundings import surroundings

NETWORK = "rehearsal-network"
"""The metadata attribute that says `none` where a machine's network is closed."""
_ANSWER_S = 10.0
_SHUTDOWN_SCRIPT_S = 2.0


class Machines:
    """Every machine of one embedded cloud. Calls about the same machine are carried out one after the other.

    Args:
        state: the cloud's state folder; disks are below `state/machines`.
        base_url: the cloud's own address with its path key, without a slash at the end.
        ssh_port: where every machine's sshd listens, on the machine's own address.
        on_notice: told, in the event loop, what happened inside.
        key_delay_s: how long a changed login key takes to come into force.
    """

    def __init__(
        self, state: Path, base_url: str, ssh_port: int, on_notice: Callable[[Notice], None], key_delay_s: float = 0.0
    ) -> None:
        self._folder = state.absolute() / "machines"
        self._hidden = (*_homes(), state)
        self._base_url = base_url
        self._ssh_port = ssh_port
        self._on_notice = on_notice
        self._key_delay_s = key_delay_s
        self._interpreter = Interpreter()
        self._bwrap = check_sandbox()
        self._running: dict[str, Running] = {}
        self._specs: dict[str, MachineSpec] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def start(self, spec: MachineSpec) -> None:
        """Boot it; returns once its sandbox runs, `Booted` follows when sshd answers. Nothing where it runs already.

        Where it cannot be started at all (its address is taken, the disk full), `Crashed` says why.
        """
        async with self._turn(spec.id):
            if spec.id in self._running:
                return
            self._specs[spec.id] = spec
            try:
                await self._boot(spec)
            except OSError as failure:
                self._on_notice(Crashed(spec.id, f"could not boot: {failure}"))

    async def stop(self, id: str) -> None:
        """End every process of it and close its sockets; returns when that is so. The disk stays."""
        async with self._turn(id):
            await self._end(id)

    async def delete(self, id: str) -> None:
        """Stop it and remove its disk."""
        async with self._turn(id):
            await self._end(id)
            await asyncio.to_thread(remove, self._folder / id)
            self._specs.pop(id, None)

    async def order(self, id: str, order: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have a running machine carry out an order (see `core.events.Control`); its answer.

        `{"ignored": reason}` where it does not run, or ends meanwhile.
        """
        running = self._running.get(id)
        if running is None:
            return {"ignored": "it does not run"}
        return await running.ask(order, _ANSWER_S)

    async def close(self) -> None:
        """Stop them all."""
        await asyncio.gather(*(self.stop(id) for id in tuple(self._running)))

    def running(self) -> dict[str, int]:
        """The machines that run, each with the process id of its sandbox on the host."""
        return {id: running.pid for id, running in self._running.items()}

    def _turn(self, id: str) -> asyncio.Lock:
        return self._turns.setdefault(id, asyncio.Lock())

    async def _boot(self, spec: MachineSpec) -> None:
        disk = Disk(self._folder / spec.id)
        index = package_index(os.environ, self._interpreter.prefix, self._hidden)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(disk.prepare, spec.hostname, spec.address, index, self._interpreter)
        binds = (*disk.binds(self._hidden), *index.binds, *self._interpreter.binds(self._hidden))
        closed = spec.metadata.get(NETWORK) == "none"
        program, environment = _program(self._interpreter), _program_environment(self._interpreter)
        sandbox = Sandbox(spec.hostname, binds, environment, program, closed=closed)
        boot = {
            "metadata": dict(spec.metadata),
            "environment": surroundings(spec, self._base_url, self._interpreter, index.environment),
            "key_delay_s": self._key_delay_s,
            "cloud_port": urlsplit(self._base_url).port,
        }
        running = await launch(self._bwrap, sandbox, (spec.address, self._ssh_port), boot, disk.console)
        self._running[spec.id] = running
        running.listen(lambda words: self._heard(spec.id, words), lambda reason: self._crashed(spec.id, reason))

    async def _end(self, id: str) -> None:
        running = self._running.get(id)
        if running is None:
            return
        if self._specs[id].metadata.get("shutdown-script"):
            await running.ask({"order": "shutdown", "grace_s": _SHUTDOWN_SCRIPT_S}, _SHUTDOWN_SCRIPT_S + 0.5)
        await running.end()
        self._running.pop(id, None)

    def _heard(self, id: str, words: Mapping[str, Any]) -> None:
        if words.get("notice") == "booted":
            self._on_notice(Booted(id, tuple(words["host_keys"]), words["agent"]))
        elif words.get("notice") == "log_line":
            self._on_notice(LogLine(id, int(words["fault_index"]), int(words["step"])))

    def _crashed(self, id: str, reason: str) -> None:
        self._running.pop(id, None)
        self._on_notice(Crashed(id, reason))


def _homes() -> tuple[Path, ...]:
    """The user's home folder by the environment, and by the user database where that knows one."""
    with contextlib.suppress(KeyError):
        return Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)
    return (Path.home(),)


def _program(interpreter: Interpreter) -> tuple[str, ...]:
    return (str(interpreter.executable), "-B", "-s", "-m", "machine")


def _program_environment(interpreter: Interpreter) -> dict[str, str]:
    return {"PYTHONPATH": "/opt/rehearsal/lib", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/root"}
