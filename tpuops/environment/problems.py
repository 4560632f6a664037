"""One complaint about an environment file, and how it reads: `file:line: key.path: message`, hint and second place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Path = tuple[str | int, ...]
Lines = Mapping[Path, int]


class Wrong(ValueError):
    """A value that a rule refuses, with what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with the value at `path`; `against` is the second place where two conflict."""

    path: Path
    message: str
    hint: str = ""
    against: Path | None = None


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A finding with its place in the file; lines count from 1."""

    line: int
    key: str
    message: str
    hint: str = ""
    against: str = ""

    def text(self, file: str) -> tuple[str, ...]:
        """The lines that people read."""
        where = f"{self.key}: " if self.key else ""
        lines = [f"{file}:{self.line}: {where}{self.message}"]
        if self.against:
            lines.append(f"    conflicts with: {file}:{self.against}")
        if self.hint:
            lines.append(f"    hint: {self.hint}")
        return tuple(lines)


def dotted(path: Path) -> str:
    """`train.setup[0][2]` for its path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def line_of(path: Path, lines: Lines) -> int:
    """The line of `path`, or of the nearest section above it that is in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def placed(finding: Finding, lines: Lines) -> Problem:
    """The finding with its lines looked up."""
    against = ""
    if finding.against is not None:
        against = f"{line_of(finding.against, lines)}: {dotted(finding.against)}"
    return Problem(line_of(finding.path, lines), dotted(finding.path), finding.message, finding.hint, against)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean x?` for a near miss, else an empty string."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""
