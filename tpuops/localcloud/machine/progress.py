"""Reads the progress of a training program out of its log files, so that a fault can fire at a training step.

Only complete lines count: `step=4` may yet become `step=40`. What was read once is not read again, over several
watches; files that appear later (a new attempt) are found by themselves. It never writes to what it reads.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

_NOT_LOGS = {"site-packages", "node_modules", "__pycache__", ".git"}
_LONGEST_LINE = 1 << 16
_CHUNK = 1 << 18


@dataclass(slots=True)
class _Position:
    inode: int
    offset: int = 0
    rest: bytes = b""


def glob_pattern(glob: str) -> re.Pattern[str]:
    """The glob as an expression over paths below a home: `**/` any depth, `*` and `?` within one name."""
    tokens = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(token, re.escape(token)) for token in tokens) + r"\Z")


def find(homes: Path, glob: str) -> list[Path]:
    """Files below any home that match the glob, sorted; folders of installed packages are not searched."""
    wanted, found = glob_pattern(glob), []
    for home in sorted(homes.iterdir()) if homes.is_dir() else []:
        for folder, inner, names in os.walk(home):
            inner[:] = [name for name in inner if name not in _NOT_LOGS]
            paths = (Path(folder) / name for name in names)
            found += [path for path in paths if wanted.match(path.relative_to(home).as_posix())]
    return sorted(found)


@dataclass(slots=True)
class Progress:
    """How far every log was read. `since` is the epoch of the boot: older files count only from their end on."""

    since: float
    _positions: dict[Path, _Position] = field(default_factory=dict)

    def first(self, paths: list[Path], pattern: re.Pattern[bytes], wanted: int) -> int | None:
        """The first newly written step >= `wanted` in these files, None where there is none yet."""
        for path in paths:
            step = self._first_in(path, pattern, wanted)
            if step is not None:
                return step
        return None

    def _first_in(self, path: Path, pattern: re.Pattern[bytes], wanted: int) -> int | None:
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                return None
            position = self._position(path, status)
            return self._scan(path, position, pattern, wanted) if status.st_size > position.offset else None
        except OSError:  # it went while we looked; a successor of that name is another file
            return None

    def _position(self, path: Path, status: os.stat_result) -> _Position:
        position = self._positions.get(path)
        if position is None:
            position = _Position(status.st_ino, status.st_size if status.st_mtime < self.since else 0)
        elif position.inode != status.st_ino or status.st_size < position.offset:
            position = _Position(status.st_ino)
        self._positions[path] = position
        return position

    def _scan(self, path: Path, position: _Position, pattern: re.Pattern[bytes], wanted: int) -> int | None:
        with path.open("rb") as log:
            log.seek(position.offset)
            while chunk := log.read(_CHUNK):
                text = position.rest + chunk
                position.offset += len(chunk)
                start = 0
                for end in re.finditer(rb"[\r\n]", text):
                    line, start = text[start : end.start()], end.end()
                    step = _step(line, pattern)
                    if step is not None and step >= wanted:
                        # the rest is read by the next watch
                        position.offset -= len(text) - start
                        position.rest = b""
                        return step
                position.rest = text[start:][-_LONGEST_LINE:]
        return None


def _step(line: bytes, pattern: re.Pattern[bytes]) -> int | None:
    found = pattern.search(line)
    if found is None:
        return None
    try:
        return int(found.group(1) if pattern.groups else found.group())
    except (ValueError, TypeError):
        return None
