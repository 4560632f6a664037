"""How a task speaks to the person, or the program, in front of it.

stdout carries data and stderr carries progress, whichever of the two is a terminal; colour only decorates what the
words already say. A reader that went away never ends a run: progress is dropped, and data stop quietly. Nothing here
decides an exit code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from tpuops.errors import TpuopsError

RED, CYAN, PLAIN = "\x1b[1;31m", "\x1b[36m", "\x1b[0m"


class ReaderGone(BaseException):
    """Whoever read our stdout closed it, as `head` does; there is no one left to tell."""


class Console:
    """The two streams of one process.

    Args:
        out: where data go; stdout if None.
        err: where progress goes; stderr if None.
        spelled: what progress reads like in this process; how our own commands are typed here depends on it.
    """

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, spelled: Callable[[str], str] = str
    ) -> None:
        self._out = out if out is not None else sys.stdout
        self._err = err if err is not None else sys.stderr
        self._spelled = spelled

    @property
    def is_terminal(self) -> bool:
        """Whether progress is read by a person, so that colour and live tables are welcome."""
        return self._err.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def say(self, line: str) -> None:
        """Progress, one line; lost without complaint where nobody listens any more."""
        try:
            self._err.write(self._spelled(line) + "\n")
            self._err.flush()
        except (BrokenPipeError, ValueError):
            self._err = _nowhere(self._err)

    def write(self, text: str) -> None:
        """Data, as they are. Raises `ReaderGone` where stdout was closed at the other end."""
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError as error:
            self._out = _nowhere(self._out)
            raise ReaderGone from error

    @property
    def shows_data(self) -> bool:
        """Whether data, too, are read by a person on a terminal."""
        return self._out.isatty() and os.environ.get("TERM") != "dumb"

    def write_document(self, document: Mapping[str, Any] | Sequence[Any]) -> None:
        """One JSON document on stdout. Raises as `write`."""
        self.write(json.dumps(document, indent=2, default=str) + "\n")

    def show_failure(self, error: TpuopsError) -> None:
        """Say what went wrong, on stderr."""
        self.say(failure(error, colour=self.is_terminal))


def failure(error: TpuopsError, *, colour: bool = False) -> str:
    """What and where, the evidence indented, and after a blank line the next command to type."""
    head = f"{RED}error:{PLAIN} " if colour else "error: "
    tip = f"{CYAN}hint:{PLAIN} " if colour else "hint: "
    lines = [head + error.message]
    lines += [f"  {line}" for entry in error.evidence for line in entry.splitlines()]
    if error.hint:
        lines += ["", tip + error.hint]
    return "\n".join(lines)


def next_steps(steps: Sequence[tuple[str, str]]) -> str:
    """Commands to type next, each with what it does, in one column."""
    width = max(len(command) for command, _ in steps)
    lines = [f"{command:{width}}  {does}".rstrip() for command, does in steps]
    return "\n".join(f"{'next: ' if not number else '      '}{line}" for number, line in enumerate(lines))


def failure_document(error: TpuopsError, exit_code: int) -> dict[str, Any]:
    """The same for a script: `error` with class, message, evidence and hint, and the `exit_code` that goes with it."""
    return {
        "error": {
            "class": type(error).__name__,
            "message": error.message,
            "evidence": list(error.evidence),
            "hint": error.hint,
        },
        "exit_code": exit_code,
    }


def _nowhere(stream: TextIO) -> TextIO:
    """Point a closed stream's descriptor at nothing, or Python complains once more when it flushes at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, stream.fileno())
    except (OSError, ValueError):
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - a stream without a descriptor
    finally:
        os.close(nothing)
    return stream
