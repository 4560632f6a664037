"""Fan-out: connections to several workers of a slice, made at once and closed together; who is not let in says why.

Knows nothing of keys and host keys: whoever calls says how one worker is entered, and what is no mere obstacle raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class Closable(Protocol):
    """A connection."""

    async def close(self) -> None:
        """Let go of it."""


Connection = TypeVar("Connection", bound=Closable)


@asynccontextmanager
async def entered(
    workers: Iterable[int], enter: Callable[[int], Awaitable[Connection | str]]
) -> AsyncIterator[tuple[dict[int, Connection], dict[int, str]]]:
    """By worker: the connections, and the words of `enter` where there is none.

    Raises what `enter` raised for the first of the workers.
    """
    numbers = list(workers)
    found = await asyncio.gather(*map(enter, numbers), return_exceptions=True)
    answers = dict(zip(numbers, found, strict=True))
    shut = {worker: each for worker, each in answers.items() if isinstance(each, str)}
    connections = {worker: each for worker, each in answers.items() if not isinstance(each, str | BaseException)}
    try:
        for each in found:
            if isinstance(each, BaseException):
                raise each
        yield connections, shut
    finally:
        await asyncio.gather(*(connection.close() for connection in connections.values()))
