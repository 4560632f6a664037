"""Time that costs nothing: an event loop that never waits but moves its own clock to the next thing due.

When nothing is due any more and somebody still waits, that is a deadlock of the program under test, and an error.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

EPOCH = 1_790_000_000.0
"""The wall clock's reading when a loop begins, epoch seconds."""

T = TypeVar("T")


class Deadlock(AssertionError):
    """Somebody waits, and nothing will ever happen."""


class _Jump(selectors.SelectSelector):
    """Instead of waiting for a file, lets the loop's time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Deadlock("somebody waits, and nothing will ever happen")
        self.passed += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time starts at 0 and jumps from event to event."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._jump.passed


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
