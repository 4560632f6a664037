"""Time that costs nothing: an event loop that never waits but moves its own clock to the next thing due.

When nothing is due any more and somebody still waits, that is a deadlock of the program under test, and an error.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

EPOCH = 1_790_000_000.0
"""The wall clock's reading when a loop begins, epoch seconds."""

T = TypeVar("T")


class Deadlock(AssertionError):
    """Somebody waits, and nothing will ever happen."""


class _NoFiles(selectors.SelectSelector):
    """Nobody in virtual time has files to wait for."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time starts at 0 and jumps from event to event."""

    def __init__(self) -> None:
        self._passed = 0.0
        super().__init__(_NoFiles())

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._passed

    def _run_once(self) -> None:
        """One round of the loop as asyncio's own does it, without files and without a watch on slow callbacks."""
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready and not self._stopping:
            if not scheduled:
                raise Deadlock("somebody waits, and nothing will ever happen")
            self._passed = max(self._passed, scheduled[0]._when)
        end = self._passed + self._clock_resolution
        while scheduled and scheduled[0]._when < end:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


class VirtualClock:
    """`tpuops.clock.Clock` in the running loop's time."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.fromtimestamp(EPOCH + self.monotonic(), UTC)

    def monotonic(self) -> float:
        """Seconds since the loop began."""
        return asyncio.get_running_loop().time()

    async def sleep(self, wait_s: float) -> None:
        """Let `wait_s` seconds pass."""
        await asyncio.sleep(wait_s)


def live(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of its own, in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


async def true_soon(claim: Callable[[], bool]) -> bool:
    """Whether the claim comes true within three seconds."""
    for _ in range(60):
        if claim():
            return True
        await asyncio.sleep(0.05)
    return False
