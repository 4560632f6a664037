"""Messages of several lines: where one begins, which lines still belong to it, and the whole of it around a place.

Whether a line is harmless is a matter of its message, and a message may be wrapped or indented over several lines.
Nothing here knows signatures or classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tpuops.diagnosis.lines import bare

_BEGINNING = re.compile(
    rb"[ \t]*(?:[IWEFD]?\d{4}[ -]|\[?\d{4}[-/]\d\d[-/]\d\d|[IWEFD] |(?:INFO|WARNING|ERROR|DEBUG|CRITICAL|FATAL)\b"
    rb"|\w+Error\b|Traceback|Exception in)"
)
_REST = re.compile(rb"\s|[:{}\[\]()\"',;.=&%]|Additional GRPC error|$")
_STATUS = re.compile(rb"[A-Z][A-Z_]{3,}: ")
_OPEN_ENDS = (b":", b",", b"=", b"(")
_ONLY_A_LEVEL = (b": I", b": W", b": E", b": F")
_IGNORED = re.compile(rb"Exception ignored in\b")
_TRACEBACK = re.compile(rb"Traceback \(most recent call last\)")
_EXCEPTION = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?::|[ \t]*$)")
_LINE_END = re.compile(rb"[\n\x0b]")
_REACH = 12
"""Lines a message may go on for and still be known by its first."""
_BEYOND = 160
"""Bytes after a line that may complete a sentence wrapped behind it."""


def begins(line: bytes, *, shipped: bool = False) -> bool:
    """Whether a line begins a message; `shipped`: every line has a prefix, which therefore means nothing."""
    return bool(_BEGINNING.match(bare(line))) or (not shipped and bool(_BEGINNING.match(line)))


def goes_on(line: bytes, previous: bytes, *, shipped: bool = False) -> bool:
    """Whether a line reads like the rest of the one before it: indented, punctuation, a status after a colon."""
    if begins(line, shipped=shipped):
        return False
    text, end = bare(line), previous.rstrip()
    if end.endswith(_ONLY_A_LEVEL):
        return True
    return bool(_REST.match(text)) or bool(_STATUS.match(text) and end.endswith(_OPEN_ENDS))


def are_ignored(lines: Sequence[bytes]) -> frozenset[int]:
    """Which lines belong to an exception that Python ignored, by index: raised where nobody can catch it, such as in a
    destructor at the program's end. The notice comes first, then the traceback, then the exception."""
    ignored, previous = set[int](), b""
    for at, line in enumerate(lines):
        text = bare(line)
        follows = _TRACEBACK.match(text) if _IGNORED.match(previous) else not _EXCEPTION.match(previous)
        if _IGNORED.match(text) or (at - 1 in ignored and follows):
            ignored.add(at)
        previous = text
    return frozenset(ignored)


def are_shipped(lines: Sequence[bytes]) -> bool:
    """Whether every line has a prefix that a launcher or a log shipper put there."""
    return all(bare(line) != line for line in lines if line.strip())


def message_around(before: bytes, line: bytes, after: bytes) -> bytes:
    """The message that `line` is part of: from its first line, a few lines back at most, to a little beyond `line`."""
    earlier = _LINE_END.split(before.rstrip(b"\n\x0b"))[-_REACH:] if before else []
    shipped = are_shipped(earlier)
    beyond = after[1:_BEYOND]
    own = line if begins(beyond, shipped=shipped) else line + b"\n" + beyond
    kept, current = [own], line
    for previous in reversed(earlier):
        if not goes_on(current, previous, shipped=shipped):
            break
        kept.append(previous)
        current = previous
        if begins(previous, shipped=shipped):
            return b"\n".join(reversed(kept))
    return own
