"""The wire between everybody and the embedded cloud's core, in virtual time.

Carries requests in and events out, asks held requests again when their time has come, and lets the core's own time
pass when something is due there. Keeps nothing back and judges nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.simulation.loop import EPOCH, sleep
from tpuops.localcloud.core.core import Core
from tpuops.localcloud.core.events import Event, Notice
from tpuops.localcloud.core.wire import Reply, Request

LATENCY_S = 0.002


class Net:
    """One core with its time. `play` gets every event the core emits; `seen` is told after each change."""

    def __init__(self, core: Core, play: Callable[[Event], None], seen: Callable[[], None]) -> None:
        self.core = core
        self._play = play
        self._seen = seen
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None
        self.before: Callable[[Request], None] = lambda request: None
        """Told of each request just before the core gets it."""
        self.latency: Callable[[], float] = lambda: LATENCY_S
        """Seconds from a request's sending to its arrival."""

    def now(self) -> float:
        """Epoch seconds."""
        return EPOCH + asyncio.get_running_loop().time()

    def deliver(self, request: Request) -> Reply:
        """Have the core answer now."""
        self.before(request)
        reply, events = self.core.handle(request, self.now())
        self._carry(events)
        return reply

    async def exchange(self, request: Request) -> Reply:
        """Have the core answer, held and delayed as it says. `drop` is left for the caller to see."""
        await sleep(self.latency())
        asked_at = self.now()
        reply = self.deliver(request)
        while reply.hold_until is not None:
            await sleep(max(0.0, reply.hold_until - self.now()) + 1e-6)
            reply = self.deliver(request._replace(asked_at=asked_at))
        if reply.delay_s:
            await sleep(reply.delay_s)
        return reply

    def tell(self, notice: Notice) -> None:
        """Tell the core what happened on a machine."""
        self._carry(self.core.tell(notice, self.now()))

    def start(self) -> None:
        """Begin to let the core's time pass."""
        self._carry([])

    def _carry(self, events: list[Event]) -> None:
        for event in events:
            self._play(event)
        self._seen()
        self._arm()

    def _arm(self) -> None:
        due = self.core.next_due(self.now())
        if self._timer is not None and due == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = due
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(max(due - EPOCH, 0.0), self._advance, due)

    def _advance(self, due: float) -> None:
        self._timer = None
        self._carry(self.core.advance(max(due, self.now())))
