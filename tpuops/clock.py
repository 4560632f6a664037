"""Time, for everyone who waits: the only module that sleeps or reads a clock.

Waiting code takes a `Clock`, so that tests run it in virtual time. Durations are seconds and come from the monotonic
reading, which stands still while this machine is suspended, as our waiting does; what goes on elsewhere meanwhile (a
lease that runs out, machines that bill) is counted by `elapsed`. `now` is for people and records, never for time-outs
(it may jump).
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

    def elapsed(self) -> float:
        """Seconds since some other fixed point, those in which this machine was suspended included."""

    async def sleep(self, wait_s: float) -> None:
        """Wait `wait_s` seconds."""


# Linux counts a suspension in CLOCK_BOOTTIME alone (clock_gettime(2)), macOS in CLOCK_MONOTONIC.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some fixed point."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Seconds since some other fixed point, those in which this machine was suspended included."""
        return time.clock_gettime(_ELAPSED)

    async def sleep(self, wait_s: float) -> None:
        """Wait `wait_s` seconds."""
        await asyncio.sleep(wait_s)
