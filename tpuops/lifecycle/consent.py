"""Asking before something that hurts: the floors below know that somebody must agree, not how a person is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tpuops.errors import Busy

Agree = Callable[[str], Awaitable[None]]
"""Takes what would be done, as a question; returns where a person agreed, raises `Busy` where nobody did."""


async def nobody(question: str) -> None:
    """Where there is no one to ask: refuse."""
    raise Busy(question, hint="nothing was touched; --yes agrees beforehand")
