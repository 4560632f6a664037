"""Time, for everyone who waits: the only module that sleeps or reads a clock.

Waiting code takes a `Clock`, so that tests run it in virtual time. Durations are seconds and come from the monotonic
reading; `now` is for people and records, never for time-outs (it may jump).
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What waiting code may know of time."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def monotonic(self) -> float:
        """Seconds since some fixed point; never runs backwards."""

    async def sleep(self, wait_s: float) -> None:
        """Wait `wait_s` seconds."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some fixed point."""
        return time.monotonic()

    async def sleep(self, wait_s: float) -> None:
        """Wait `wait_s` seconds."""
        await asyncio.sleep(wait_s)
