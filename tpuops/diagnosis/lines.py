"""Single lines: whose they are, whether they say that training advanced, and where they begin and end.

Reading turned carriage returns into vertical tabs; both end a line here, only line feeds are counted elsewhere.
"""

from __future__ import annotations

import re

from tpuops.diagnosis.dialect import PREFIX

LONGEST_LINE = 4 << 10
"""Bytes kept of one line; a longer one is cut around the place that matters."""

_SAMPLE, _SHORT_LINES = 1 << 10, 24
"""Lines in that many bytes above which they are short."""

_SOURCE = re.compile(
    rb"[ \t]*(?:"
    rb"\(((?:[\w.-]+[^()\n]{0,80})?pid=[0-9]+[^()\n]{0,60})\)"  # ray: (Trainer pid=1, ip=...)
    rb"|\[((?:worker|host|rank|task|process|w)?[ :#=-]?[0-9]{1,4})\](?!:)"  # [3], [rank3]
    rb"|((?:worker|host|rank|task|process)[ :#=-]?[0-9]{1,4})[\]:|> ]"
    rb"|[0-9-]{10} [0-9:.,]{8,15} ((?:[0-9]{1,3}\.){3}[0-9]{1,3} \[[0-9]+\])"  # xla_dist: date time ip [n]
    rb")",
    re.IGNORECASE,
)
_PREFIXES = re.compile(PREFIX + rb"{1,4}")
_STEP = re.compile(
    rb"(?:step|iteration|iter|batch|update)s?(?:\x1b\[[0-9;]*m)?[ =:#/\"'\[(),]{1,4}(?:[0-9]+, ?)?([0-9][0-9,]*)"
    rb"|\b([0-9]+)/(?:[0-9]+\b|\? [\[(])|\bepochs?[ =:#\[]{1,3}([0-9.]+)",
    re.IGNORECASE,
)
_CLOCK = re.compile(rb"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRIED_AGAIN = re.compile(rb"\b(?:retr(?:y|ies|ying)|attempt|try|tries)\b", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"\b(?:nan|inf)\b", re.IGNORECASE)


def bounds(data: bytes, place: int) -> tuple[int, int]:
    """Where the line around `place` begins and ends, at most `LONGEST_LINE` away."""
    low, high = max(0, place - LONGEST_LINE), min(len(data), place + LONGEST_LINE)
    begin = max(data.rfind(b"\n", low, place), data.rfind(b"\x0b", low, place)) + 1 or low
    ends = [end for end in (data.find(b"\n", place, high), data.find(b"\x0b", place, high)) if end >= 0]
    return begin, min(ends, default=high)


def line_ends(data: bytes, begin: int = 0) -> int:
    """How many line feeds there are from `begin` on.

    Taking them out and comparing lengths searches with the processor's wide instructions; counting looks at every
    byte. Only where lines are short is counting the faster way.
    """
    if data.count(b"\n", begin, begin + _SAMPLE) > _SHORT_LINES:
        return data.count(b"\n", begin)
    return len(data) - len(data.replace(b"\n", b"")) - data.count(b"\n", 0, begin)


def bare(line: bytes) -> bytes:
    """The line without what launchers and log shippers put before it."""
    found = _PREFIXES.match(line)
    return line[found.end() :] if found else line


def source_of(line: bytes) -> bytes:
    """Which process of an interleaved log printed the line, empty where it does not say."""
    found = _SOURCE.match(line[:200])
    return next((each for each in found.groups() if each), b"") if found else b""


def advance_of(line: bytes) -> bytes:
    """What a progress line says of how far training is: its counts, or the line without its clock; empty for no news.

    Epoch and batch count together, since the one stands still while the other advances; the count of tries does not.
    Step 0 is no news, nor is a line whose numbers are not finite.
    """
    if _NOT_FINITE.search(line):
        return b""
    values = [next(filter(None, found.groups())) for found in _STEP.finditer(line)]
    if not values:
        return _CLOCK.sub(b"", line)
    if _TRIED_AGAIN.search(line):
        values = values[:1]
    return b" ".join(values) if any(each.strip(b"0.,") for each in values) else b""
