"""One log from bytes to judgement: scan, judge, and look again where a terminal had wrapped the end of the log.

Terminals and panes cut lines at their width, in the middle of words; then no message is whole. Only where the first
look found nothing that names a cause is the end of the log put together again and judged once more, so that a log
that was never wrapped costs nothing. Pure apart from reading the chunks it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tpuops.diagnosis.classes import HEALTHY, UNKNOWN
from tpuops.diagnosis.engine import Engine
from tpuops.diagnosis.judge import NAMES_A_CAUSE, Judgement, is_harmless, judge, weight
from tpuops.diagnosis.messages import begins
from tpuops.diagnosis.scan import Log, scanned

_NARROWEST, _WIDEST = 60, 400
_PROVES_WRAPPING = 2
_LOOKED_AT = 16 << 10
"""Bytes at the end of a log that are put together again."""
_FIRST_WORD = re.compile(rb"\S*")


_SAY_NOTHING = frozenset({HEALTHY, UNKNOWN})


@dataclass(frozen=True, slots=True)
class Rejoined:
    """The end of a log put together again, with the number in the file of each line, and how many were joined."""

    text: bytes
    numbers: tuple[int, ...]
    joints: int


def examine(chunks: Iterable[bytes], engine: Engine, *, failed: bool = False) -> Judgement:
    """The judgement on one log's bytes. `failed`: the process is known to have ended with a code other than 0."""
    log = scanned(engine, chunks)
    first = judge(log, engine, failed=failed)
    if weight(first) <= NAMES_A_CAUSE or (first.failure_class == HEALTHY and log.progressed):
        return first
    for joined in rejoined(log):
        second = judge(scanned(engine, [joined.text], stepping=log.progressed), engine, failed=failed)
        if _says_more(second, first, joined):
            number = joined.numbers[min(second.line_number, len(joined.numbers)) - 1]
            return replace(second, line_number=number, why=f"{second.why}; its lines were wrapped by a terminal")
    return first


def _says_more(second: Judgement, first: Judgement, joined: Rejoined) -> bool:
    """A weightier message, or proof that the first was part of a harmless one; one long line proves no wrapping."""
    if weight(second) < weight(first):
        return True
    if second.failure_class not in _SAY_NOTHING and first.failure_class in _SAY_NOTHING:
        return True
    if second.failure_class != HEALTHY or joined.joints < _PROVES_WRAPPING:
        return False
    explained = first.winner is not None and is_harmless(second, first.winner.hit.signature)
    return explained or first.failure_class == UNKNOWN


def rejoined(log: Log) -> Iterator[Rejoined]:
    """The log's tail, cut lines joined: first as if cut anywhere at the margin, then as if wrapped between words."""
    tail = log.tail[-_LOOKED_AT:]
    first = log.tail_line + log.tail.count(b"\n", 0, len(log.tail) - len(tail))
    lines = tail.split(b"\n")
    margin = max(map(_width, lines))
    if _NARROWEST <= margin <= _WIDEST:
        yield _joined(lines, first, margin, glue=b"")
        yield _joined(lines, first, margin, glue=b" ")


def _width(line: bytes) -> int:
    """How many characters a terminal shows."""
    return len(line.decode("utf-8", errors="replace"))


def _joined(lines: list[bytes], first_number: int, margin: int, *, glue: bytes) -> Rejoined:
    parts: list[list[bytes]] = []
    numbers = []
    previous: bytes | None = None
    for number, line in enumerate(lines, first_number):
        if previous is not None and _was_cut(previous, line, margin, between_words=bool(glue)) and not begins(line):
            parts[-1].append(line)
        else:
            parts.append([line])
            numbers.append(number)
        previous = line
    return Rejoined(b"\n".join(glue.join(each) for each in parts), tuple(numbers), len(lines) - len(parts))


def _was_cut(line: bytes, following: bytes, margin: int, *, between_words: bool) -> bool:
    """Whether a line ends at the margin, or, wrapped between words, where the next line's first did not fit."""
    word = _FIRST_WORD.match(following)
    more = 1 + _width(word.group()) if between_words and word else 0
    return _width(line) + more >= margin + bool(more)
