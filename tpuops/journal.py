"""The append-only record of what was decided and done, for people and for the budgets of one run.

Each event goes to a local spool (one fsynced line), to whoever listens (the console), and, once a run has a home, to
the bucket as one object per event. It is never asked what exists: with the local folder gone another machine reaches
the same end.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuops.clock import Clock
from tpuops.cloud.port import ObjectStore
from tpuops.errors import TpuopsError
from tpuops.remote.files import settle


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: `kind` is `<stage>.<verb>`, `facts` are JSON values."""

    kind: str
    at: str
    facts: dict[str, Any] = field(default_factory=dict)

    def line(self) -> bytes:
        """The event as one JSON line."""
        return (
            json.dumps({"at": self.at, "kind": self.kind, **self.facts}, sort_keys=True, default=str).encode() + b"\n"
        )


Listener = Callable[[Event], None]


class Journal:
    """Records events. `spool` is the local file (None: no local copy); listeners must not raise."""

    def __init__(self, clock: Clock, spool: Path | None, listeners: tuple[Listener, ...] = ()) -> None:
        self._clock = clock
        self._path = spool
        self._spool: int | None = None
        self._listeners = listeners
        self._pending: list[Event] = []
        self._store: ObjectStore | None = None
        self._prefix = ""
        self._count = 0
        self._sending: asyncio.Task[None] | None = None

    def record(self, kind: str, **facts: Any) -> None:
        """Write one event; the local copy is on disk when this returns, or can be had no more, which is said once."""
        event = Event(kind, self._clock.now().isoformat(timespec="milliseconds"), facts)
        self._keep(event)
        for listener in self._listeners:
            listener(event)
        self._pending.append(event)
        if self._store is not None:
            self._sent()

    def _keep(self, event: Event) -> None:
        """The local copy; its file begins with the first event, so that a command that only reads leaves none.

        A full disk or a home that cannot be written must not end a supervision: the run is worth more than this copy.
        """
        if self._path is None:
            return
        try:
            if self._spool is None:
                self._spool = _open(self._path)
            line = event.line()
            if os.write(self._spool, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._spool)
        except OSError as error:
            path, self._path = self._path, None
            for listener in self._listeners:
                listener(Event("journal.unwritten", event.at, {"path": str(path), "why": error.strerror or str(error)}))

    def attach(self, store: ObjectStore, prefix: str) -> None:
        """From now on copy events to `prefix` in the home bucket, one object each, named by time."""
        self._store, self._prefix = store, prefix

    async def flush(self) -> None:
        """Send what is pending, once; what cannot be sent stays in the local spool and is said."""
        if self._sending is not None:
            await self._sending
        await self._sent()
        for event in self._pending if self._store is not None else ():
            for listener in self._listeners:
                listener(Event("journal.unsent", event.at, {"event": event.kind}))

    def _sent(self) -> asyncio.Task[None]:
        """The one sender: a bucket that does not answer is waited for once, not once an event."""
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_pending())
        return self._sending

    async def _send_pending(self) -> None:
        while self._store is not None and self._pending:
            event = self._pending[0]
            name = f"{self._prefix}{event.at}-{self._count:04d}-{event.kind}.json"
            try:
                await self._store.write(name, event.line(), if_generation=None)
            except TpuopsError:
                return
            self._pending.pop(0)
            self._count += 1


def _open(spool: Path) -> int:
    spool.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(spool, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    settle(spool.parent)
    return opened
