"""The embedded cloud as a process: joins core, store, HTTP skin and machines, and owns the clock.

One folder, one process. Everything a reply promises is on disk before the reply leaves (that somebody has read is
promised to nobody: the log of reads is saved a moment later); what the core decides about machines is carried out right
after. It decides nothing itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import hmac
import json
import os
import random
import secrets
import signal
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tpuops import __version__
from tpuops.localcloud.certificate import serve_with
from tpuops.localcloud.core.core import LOG, Core
from tpuops.localcloud.core.events import (
    Answered,
    Control,
    Crashed,
    DeleteMachine,
    Event,
    MachineSpec,
    Notice,
    StartMachine,
)
from tpuops.localcloud.core.profile import INSTANT, Profile
from tpuops.localcloud.core.wire import Reply, Request
from tpuops.localcloud.http_skin import Skin
from tpuops.localcloud.machines import Machines
from tpuops.localcloud.network import choose_network
from tpuops.localcloud.store import Store

ENDPOINT = "endpoint.json"
NEVER_S = 3600.0
LOG_S = 0.2
"""So much later, at most, the request log is saved where nothing else was written."""


class InUse(Exception):
    """Another process serves this state folder."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to serve: see `python -m tpuops.localcloud serve --help`. `machines` False serves API objects alone."""

    state: Path
    seed: int | None = None
    port: int = 0
    profile: Profile = INSTANT
    machines: bool = True
    faults: Any = None


class _Machines(Protocol):
    async def start(self, spec: MachineSpec) -> None: ...
    async def stop(self, id: str) -> None: ...
    async def delete(self, id: str) -> None: ...
    async def order(self, id: str, order: Any) -> Any: ...
    async def close(self) -> None: ...


class _NoMachines:
    """Nodes and instances as API objects only: nothing boots."""

    async def start(self, spec: MachineSpec) -> None:
        """Start nothing."""

    async def stop(self, id: str) -> None:
        """Stop nothing."""

    async def delete(self, id: str) -> None:
        """Delete nothing."""

    async def order(self, id: str, order: Any) -> Any:
        """Nobody hears it."""

    async def close(self) -> None:
        """Close nothing."""


class Server:
    """The running cloud."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._store = Store(options.state / "cloud.sqlite")
        self._world = self._store.world
        self._saved: dict[str, Any] = self._world.get("cloud", "endpoint") or _new_endpoint()
        seed = secrets.randbits(32) if options.seed is None else options.seed
        self._last = 0.0
        self._core = Core(self._world, options.faults, options.profile, seed, self._saved["prefix"], self._now())
        self._skin = Skin(self._saved["key"], self._answer, self._knows, self._now)
        self._machines: _Machines = _NoMachines()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.TimerHandle | None = None
        self._closing = False

    async def open(self) -> None:
        """Listen, boot the machines that should run, and say where (endpoint.json). Raises OSError."""
        port = await self._listen()
        context, certificate = serve_with(self._options.state)
        tunnel = {"tunnel": await self._skin.open_tunnel(context), "certificate": str(certificate.absolute())}
        started = datetime.now(UTC).isoformat()
        endpoint = {"url": self._skin.url, "pid": os.getpid(), "ssh_port": self._saved["ssh_port"], "started": started}
        self._world.put("cloud", "endpoint", {**self._saved, "port": port})
        self._world.put("cloud", "process", {**endpoint, "version": __version__})
        profile = self._options.profile
        if self._options.machines:
            place, key_delay_s = (self._skin.url, self._saved["ssh_port"]), profile.key_delay_s * profile.scale
            self._machines = Machines(self._options.state, *place, self._noticed, key_delay_s)
        self._follow(self._core.resume(self._now()))
        _write_private(self._options.state / ENDPOINT, json.dumps({**endpoint, **tunnel, "version": __version__}))

    async def close(self) -> None:
        """Stop listening, end all machines, save."""
        self._closing = True
        (self._options.state / ENDPOINT).unlink(missing_ok=True)
        for timer in (self._timer, self._saving):
            if timer is not None:
                timer.cancel()
        await self._skin.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._machines.close()
        self._store.close()

    async def _listen(self) -> int:
        """The port asked for, else the one of the last time (callers may still know it), else any."""
        wanted = self._options.port or int(self._saved.get("port", 0))
        try:
            return await self._skin.open(wanted)
        except OSError:
            if self._options.port or not wanted:
                raise
        return await self._skin.open(0)

    def _now(self) -> float:
        """Epoch seconds that never run backwards."""
        self._last = max(self._last, time.time())
        return self._last

    def _knows(self, token: str) -> bool:
        """The key itself is a token too: gcloud sends it with every call (CLOUDSDK_AUTH_ACCESS_TOKEN_FILE)."""
        issued = self._world.get("token", token)
        alive = issued is not None and issued["expires"] > self._now()
        return alive or hmac.compare_digest(token.encode(), self._saved["key"].encode())

    def _answer(self, request: Request) -> Reply:
        reply, events = self._core.handle(request, self._now())
        self._follow(events)
        return reply

    def _noticed(self, notice: Notice) -> None:
        if not self._closing:
            self._follow(self._core.tell(notice, self._now()))

    def _tick(self) -> None:
        self._follow(self._core.advance(self._now()))

    def _follow(self, events: list[Event]) -> None:
        """Save what the core changed, then have the machines do what it decided, and set the alarm anew."""
        if self._world.changed(beside=LOG):
            self._store.save()
        elif self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(LOG_S, self._save_log)
        for event in events:
            task = asyncio.get_running_loop().create_task(self._carry_out(event))
            self._tasks.add(task)
            task.add_done_callback(partial(self._carried_out, event))
        if self._timer is not None:
            self._timer.cancel()
        now = self._now()
        due = self._core.next_due(now)
        wait_s = NEVER_S if due is None else min(NEVER_S, max(0.0, due - now))
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _save_log(self) -> None:
        self._saving = None
        self._store.save()

    def _carried_out(self, event: Event, task: asyncio.Task[Any]) -> None:
        """A machine that could not be booted has crashed; anything else that broke is said on standard error."""
        self._tasks.discard(task)
        broken = None if task.cancelled() else task.exception()
        if broken is None:
            return
        context = {"message": f"{type(event).__name__} broke", "exception": broken}
        asyncio.get_running_loop().call_exception_handler(context)
        if isinstance(event, StartMachine):
            self._noticed(Crashed(event.machine.id, repr(broken)))

    def _carry_out(self, event: Event) -> Coroutine[Any, Any, Any]:
        if isinstance(event, StartMachine):
            return self._machines.start(event.machine)
        if isinstance(event, Control):
            return self._order(event)
        if isinstance(event, DeleteMachine):
            return self._machines.delete(event.id)
        return self._machines.stop(event.id)

    async def _order(self, event: Control) -> None:
        answer = await self._machines.order(event.id, event.order)
        if event.fault and answer is not None:
            self._noticed(Answered(event.id, event.fault, answer))


def lock(state: Path) -> int:
    """Take the folder for this process; the lock goes with the process. Raises InUse."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(state / "cloud.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(descriptor)
        raise InUse(f"an embedded cloud already serves {state}") from problem
    return descriptor


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = Server(options)
    try:
        await server.open()
        await stopping.wait()
    finally:
        await server.close()


def _new_endpoint() -> dict[str, Any]:
    network = choose_network(random.SystemRandom())
    key = f"k-{secrets.token_hex(24)}"  # gcloud takes any part of a path in which it finds v1 to v4 for a version
    return {"key": key, "prefix": network.prefix, "ssh_port": network.ssh_port}


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 (mode at creation)
        file.write(text)
    draft.replace(path)
