"""Our commands as they are typed here: `tpuops plan`, or in a checkout `invoke plan` or `.venv/bin/invoke plan`.

What every room says is `tpuops ...`; only the words on the screen change, and only where a task's name follows.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

THROUGH = frozenset({"invoke", "inv"})
LOG = "  | "
"""How a line of the training's own log begins, which is not ours to change."""


def spelled(program: str, tasks: Iterable[str]) -> Callable[[str], str]:
    """What turns a line into one whose commands can be typed again, for a process started as `program`."""
    typed, names = typed_as(program), "|".join(map(re.escape, tasks))
    if typed == "tpuops" or not names:
        return str
    command = re.compile(rf"(?<![\w./-])tpuops (?=(?:{names})(?![\w.]))")
    return lambda line: line if line.startswith(LOG) else command.sub(f"{typed} ", line)


def typed_as(program: str) -> str:
    """The word that starts this program again."""
    path = Path(program)
    if path.name not in THROUGH:
        return "tpuops"
    found = shutil.which(path.name)
    return path.name if found is not None and Path(found).resolve() == path.resolve() else program
