"""A view that is shown again and again: redrawn on a terminal, elsewhere one line each time that something changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

HOME_AND_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class Screen:
    """Where it is shown. `write` takes text for stdout; `redraws` where that is a terminal."""

    def __init__(self, write: Callable[[str], None], *, redraws: bool) -> None:
        self._write, self._redraws = write, redraws
        self._last = ""

    def show(self, whole: str, brief: str, now: datetime) -> None:
        """Show the view as of `now`: `whole` on a terminal, `brief` (lines) elsewhere."""
        if self._redraws:
            self._write(f"{HOME_AND_CLEAR}{now:%H:%M:%S} UTC, again every few seconds; Ctrl-C ends it\n\n{whole}\n")
        elif brief != self._last:
            self._last = brief
            self._write("".join(f"{now:%H:%M:%S} {line}\n" for line in brief.splitlines()))
