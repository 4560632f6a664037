"""Controllers as processes: each has a host and a pid, and may die or stand still at any call it makes.

A dead controller's coroutines stay where they are, like memory of a killed process: no `finally` of theirs runs. They
are buried, harmlessly, after the end of the schedule.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.loop import VirtualClock

PHASES = ("send", "commit", "reply")
ANY = "any"


class Buried(BaseException):
    """Ends a dead controller's coroutines once nobody looks any more."""


def _unless_buried(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what nobody caught. Who is buried may begin something on his way out, whose end nobody waits for."""
    if not isinstance(context.get("exception"), Buried):
        loop.default_exception_handler(context)


@dataclass(frozen=True, slots=True)
class Doom:
    """What becomes of a controller at its `call`-th call: before it is sent, after it took effect, after the reply.

    `pause_s` None: it dies. Otherwise it stands still that long (SIGSTOP) and goes on. `signal`: it is told to end.
    `same_host`: where the next controller starts, `after_s` later. With `method`, `call` counts calls of that method.
    With phase "any", `call` counts points: every phase of every call is one.
    """

    call: int
    phase: str
    same_host: bool
    after_s: float = 1.0
    pause_s: float | None = None
    method: str = ""
    signal: bool = False


@dataclass(slots=True)
class Life:
    """One controller process."""

    host: str
    pid: int
    doom: Doom | None = None
    alive: bool = True
    over: bool = False
    calls: Counter[str] = field(default_factory=Counter)
    on_change: Callable[[Life, str], None] = lambda life, method: None
    points: list[str] = field(default_factory=list)
    """The points passed so far, as `phase method`: where a sweep may kill."""
    skew_s: float = 0.0
    """How far its host's wall clock is ahead."""
    suspended_s: float = 0.0
    """For how long its host was suspended, which its timers know nothing of."""
    struck: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[Any] | None = None
    """What it does: a signal cancels it."""
    told_to_end: bool = False
    _stuck: set[asyncio.Future[None]] = field(default_factory=set)
    _paused: asyncio.Event | None = None
    _buried: bool = False

    async def at(self, phase: str, method: str = "") -> None:
        """Pass a point of a call (of `method`, where it is one of the cloud), or never return from it."""
        if phase == "send":
            self.calls[""] += 1
            self.calls[method] += bool(method)
        self.points.append(f"{phase} {method}".rstrip())
        doom = self.doom
        if doom is not None and self._meets(doom, phase):
            self._strike(doom)
        await self.breathe()

    def _meets(self, doom: Doom, phase: str) -> bool:
        if doom.phase == ANY:
            return len(self.points) == doom.call
        return phase == doom.phase and self.calls[doom.method] == doom.call

    async def breathe(self) -> None:
        """Return only while the process runs."""
        if self.alive and self._paused is None and not self._buried:
            return
        while self._paused is not None and not self._paused.is_set():
            await self._paused.wait()
        if self._buried:
            raise Buried
        if not self.alive:
            stuck = asyncio.get_running_loop().create_future()
            self._stuck.add(stuck)
            await stuck

    def _strike(self, doom: Doom) -> None:
        self.doom = None
        if doom.signal:
            assert self.work is not None
            self.told_to_end = True
            asyncio.get_running_loop().call_soon(self.work.cancel)
            return
        self.struck.set()
        if doom.pause_s is None:
            self.alive = False
        else:
            self.stand_still(doom.pause_s)

    def stand_still(self, pause_s: float) -> None:
        """Stop for so long (SIGSTOP), and go on."""
        self._paused = asyncio.Event()
        asyncio.get_running_loop().call_later(pause_s, self._paused.set)

    @property
    def stood_still(self) -> bool:
        """Whether it was stopped for a while."""
        return self._paused is not None

    def bury(self) -> None:
        """Let the coroutines of this process end without any further effect."""
        self.alive, self._buried = False, True
        asyncio.get_running_loop().set_exception_handler(_unless_buried)
        for stuck in self._stuck:
            if not stuck.done():
                stuck.set_exception(Buried())
        if self._paused is not None:
            self._paused.set()


CURRENT: ContextVar[Life] = ContextVar("life")


class LifeClock(VirtualClock):
    """The clock of one controller: who sleeps may not wake up again."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def now(self) -> datetime:
        """The wall clock of its host."""
        return super().now() + timedelta(seconds=self._life.skew_s)

    def elapsed(self) -> float:
        """With the time that its host was suspended."""
        return super().elapsed() + self._life.suspended_s

    async def sleep(self, wait_s: float) -> None:
        """Let time pass; a dead process stays asleep."""
        await super().sleep(wait_s)
        await self._life.breathe()
