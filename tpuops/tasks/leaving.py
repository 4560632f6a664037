"""Ctrl-C, SIGTERM or a hang-up in the middle of a task: what goes on without it, and how to come back.

`run` and `train` say their own, since the file decides what an interruption means for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tpuops.report.console import next_steps
from tpuops.tasks.asking import ALL_SAID
from tpuops.tasks.task import Invocation


@contextmanager
def leaving(
    asked: Invocation, goes_on: Callable[[], str], back: Callable[[], Sequence[tuple[str, str]]]
) -> Iterator[None]:
    """Say both where the block is cancelled, and let the cancellation go on upwards."""
    try:
        yield
    except asyncio.CancelledError as error:
        if ALL_SAID in getattr(error, "__notes__", ()):
            raise
        asked.say(f"\n{goes_on()}")  # a terminal shows ^C at the line's start
        if steps := back():
            asked.say(next_steps(steps))
        raise
