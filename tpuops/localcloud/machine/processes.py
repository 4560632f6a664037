"""The machine's process table: finds the process an order names, and never the machine's own program."""

from __future__ import annotations

import os
import signal
from pathlib import Path

SPARED: set[int] = set()
_PROC = Path("/proc")


def kill_newest(match: str) -> int | None:
    """SIGKILL the newest process whose command line contains `match`; its id, or None where there is none."""
    for pid in _matching(match):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it ended while we looked
            continue
        return pid
    return None


def newest(match: str) -> int | None:
    """The newest process whose command line contains `match`, or None where there is none."""
    return next(iter(_matching(match)), None)


def _matching(match: str) -> list[int]:
    candidates = sorted(((_started(pid), pid) for pid in _ids() if match in _command_line(pid)), reverse=True)
    return [pid for _, pid in candidates]


def _ids() -> list[int]:
    """Every process but the sandbox's reaper, ourselves and the gate's keeper."""
    ours = {1, os.getpid(), os.getppid(), *SPARED}
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit() and int(entry.name) not in ours]


def _command_line(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode("utf-8", "replace")


def _started(pid: int) -> int:
    """Clock ticks after boot at which it started (proc_pid_stat(5), field 22); the name before it may hold anything."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])
