"""Asking a person before something that hurts: on a terminal a question, elsewhere a refusal, with --yes neither."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from tpuops.errors import Busy
from tpuops.tasks.task import Invocation

if TYPE_CHECKING:
    from tpuops.lifecycle.consent import Agree

YES = "agree beforehand to whatever would be asked"
_LINE_BYTES = 4096
ALL_SAID = "what goes on was said already"
"""The note on a cancellation that came before anything was begun."""


def agreeing(asked: Invocation, *, yes: bool) -> Agree:
    """How this command's person agrees; `yes`: they did on the command line, to all but the end of another's run."""

    async def agree(question: str, whose: str = "") -> None:
        if yes and not whose:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            from tpuops.environment.owner import VARIABLE

            how = f"--yes is no word of {whose}'s: ask {whose}, then put {VARIABLE}={whose} before the command"
            how = how if whose else "--yes agrees beforehand"
            raise Busy(f"nobody is there to agree: {question}", hint=f"{how}; nothing was touched")
        asked.say(f"{question} [y/N]")
        try:
            answer = await _line(sys.stdin.fileno())
        except asyncio.CancelledError as error:
            asked.say("\nnothing was touched")
            error.add_note(ALL_SAID)
            raise
        if answer.strip().lower() not in {"y", "yes"}:
            raise Busy("not agreed; nothing was touched")

    return agree


async def _line(descriptor: int) -> str:
    """One line of a terminal, in the event loop itself: a thread that waits for it would outlive Ctrl-C."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _LINE_BYTES).decode(errors="replace")
