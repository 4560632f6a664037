"""The only retrier. It repeats what is named, a bounded number of times and for a bounded time, on the given clock.

A service that says how long to stay away (Retry-After) is not asked before that; where this is past the end, not again.

Only calls whose repetition is harmless come here: reads, deletions, conditional writes, and creations under a
deterministic name whose author looks the resource up before asking again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tpuops.clock import Clock
from tpuops.errors import Transient

Result = TypeVar("Result")

TRIES = 6
LONGEST_S = 60.0
FIRST_WAIT_S = 0.3
LONGEST_WAIT_S = 10.0


async def repeatedly(ask: Callable[[], Awaitable[Result]], clock: Clock) -> Result:
    """What `ask` returns, asked again after each `Transient`; the last one is raised when tries or time run out."""
    usual = wait_random_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S)
    end = clock.monotonic() + LONGEST_S
    try:
        return await ask()  # what succeeds at once, as nearly every call does, needs no retrier
    except Transient as error:
        failed = [error]

    def too_late(state: RetryCallState) -> bool:
        return clock.monotonic() + _asked_s(state) >= end

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Transient),
        stop=stop_after_attempt(TRIES) | too_late,  # type: ignore[operator]
        wait=lambda state: max(usual(state), _asked_s(state)),
        sleep=clock.sleep,
        reraise=True,
    )

    async def once() -> Result:
        # tenacity awaits coroutine functions only; a lambda that returns a coroutine would be handed back unawaited.
        if failed:
            raise failed.pop()  # the first try counts as one
        return await ask()

    return await retrying(once)


def _asked_s(state: RetryCallState) -> float:
    """How long the service asked us to stay away after the try that just failed."""
    error = state.outcome.exception() if state.outcome is not None else None
    return error.retry_after_s if isinstance(error, Transient) else 0.0
