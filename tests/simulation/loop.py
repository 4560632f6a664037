"""Time that costs nothing: an event loop that never waits but moves its own clock to the next thing due.

When nothing is due any more and somebody still waits, that is a deadlock of the program under test, and an error.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from datetime import UTC, datetime
from typing import Any, TypeVar

EPOCH = 1_790_000_000.0
"""The wall clock's reading when a loop begins, epoch seconds."""
RESOLUTION_S = 1e-9
"""What is due within it is due at once."""

T = TypeVar("T")


class Deadlock(AssertionError):
    """Somebody waits, and nothing will ever happen."""


class _NoFiles(selectors.SelectSelector):
    """Nobody in virtual time has files to wait for."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []


class _Handle:
    """A callback that is due; the little of `asyncio.TimerHandle` that anybody uses, as asyncio's own costs more."""

    __slots__ = ("_args", "_callback", "_context", "_when")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None, when: float):
        self._callback: Callable[..., Any] | None = callback
        self._args, self._context, self._when = args, context or copy_context(), when

    def cancel(self) -> None:
        """Do nothing when its time has come."""
        self._callback, self._args = None, ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._callback is None

    def when(self) -> float:
        """Seconds since the loop began."""
        return self._when

    def call(self) -> None:
        """Call back, unless it was cancelled."""
        if self._callback is not None:
            self._context.run(self._callback, *self._args)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time starts at 0 and jumps from event to event; of two due at once, the older comes first.

    Does what asyncio's own does, without files, debugging and a watch on slow callbacks.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self._due: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._soon: deque[_Handle] = deque()
        self._made = itertools.count()
        super().__init__(_NoFiles())

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._passed

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        """Call back in the next round."""
        handle = _Handle(callback, args, context, self._passed)
        self._soon.append(handle)
        return handle

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        """Call back `delay` seconds from now."""
        return self.call_at(self._passed + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        """Call back at a time of this loop."""
        handle = _Handle(callback, args, context, when)
        heapq.heappush(self._due, (when, next(self._made), _Handle.call, handle))
        return handle

    def sleeper(self, wait_s: float) -> Awaitable[None]:
        """What is done once `wait_s` seconds passed."""
        sleeper = self.create_future()
        heapq.heappush(self._due, (self._passed + max(0.0, wait_s), next(self._made), _wake, sleeper))
        return sleeper

    def _run_once(self) -> None:
        """One round: whatever is due, and what was to be called soon when the round began."""
        due, soon = self._due, self._soon
        if not soon and not self._stopping:
            self._pass_time()
        try:
            while due and due[0][0] <= self._passed + RESOLUTION_S:
                _, _, call, whom = heapq.heappop(due)
                call(whom)
            for _ in range(len(soon)):
                soon.popleft().call()
        except Exception as error:  # noqa: BLE001 (as asyncio does: it is said, and life goes on)
            self.call_exception_handler({"message": "a callback raised", "exception": error})

    def _pass_time(self) -> None:
        """To the next thing due that nobody has taken back."""
        while self._due:
            when, _, _, whom = self._due[0]
            if not whom.cancelled():
                self._passed = max(self._passed, when)
                return
            heapq.heappop(self._due)
        raise Deadlock("somebody waits, and nothing will ever happen")


def sleep(wait_s: float) -> Awaitable[None]:
    """Let `wait_s` seconds of the running loop pass."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.sleeper(wait_s)


class VirtualClock:
    """`tpuops.clock.Clock` in the running loop's time."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.fromtimestamp(EPOCH + self.monotonic(), UTC)

    def monotonic(self) -> float:
        """Seconds since the loop began."""
        return asyncio.get_running_loop().time()

    def elapsed(self) -> float:
        """The same: nobody is suspended here."""
        return self.monotonic()

    async def sleep(self, wait_s: float) -> None:
        """Let `wait_s` seconds pass."""
        await sleep(wait_s)


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
        await sleep(0.05)
    return False
