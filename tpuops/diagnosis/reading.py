"""Logs as they come, turned into clean blocks of whole lines with flat memory.

Files, gzip, standard input or bytes; ANSI colours and carriage returns are normalised, lines without end are cut.
A block never grows beyond `LONGEST`, whatever the input. Nothing here knows what a line means.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from tpuops.diagnosis.lines import line_ends

BLOCK = 64 << 10
"""Bytes read at a time."""
LONGEST = 1 << 20
"""A line longer than this is cut into pieces that overlap by `OVERLAP`."""
OVERLAP = 8 << 10
SHARED = 600
"""Bytes at most that two neighbouring blocks share at a line's end."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
_SAMPLE = 64
"""Colour codes among which most of a log's few different ones are seen."""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole lines (or a piece of one endless line).

    `overlap` bytes at its start were in the block before; `lines_before` counts the file's line ends before the rest.
    """

    data: bytes
    lines_before: int
    overlap: int = 0


def clean(data: bytes) -> bytes:
    """Without colour codes; CRLF as LF; other carriage returns as vertical tabs, so line numbers stay."""
    if b"\x1b" in data:
        data = _without_codes(data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\x0b")
    return data


def _without_codes(data: bytes) -> bytes:
    """A coloured log repeats a few codes: those are taken out as plain texts, which is faster than by pattern; cutting
    and joining is faster than replacing by nothing."""
    for code in {found.group() for found in islice(_ANSI.finditer(data), _SAMPLE)}:
        data = b"".join(data.split(code))
    return _ANSI.sub(b"", data) if b"\x1b" in data else data


def blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Whole lines out of chunks that end anywhere; the last line needs no line end. A block begins with the end of
    the one before, so that a message wrapped over the border is whole in one of them."""
    waiting: list[bytes | memoryview] = []
    shared, lines, size = 0, 0, 0
    for chunk in chunks:
        size += len(chunk)
        end = _cut(chunk, endless=size >= LONGEST)
        waiting.append(memoryview(chunk)[:end] if end else chunk)
        if end:
            data = b"".join(waiting)
            block = _block(data, shared, lines)
            yield block
            lines += line_ends(block.data, block.overlap)
            begin = _last_lines(data)
            waiting, shared, size = [data[begin:], chunk[end:]], len(data) - begin, len(chunk) - end
    rest = b"".join(waiting)
    if len(rest) > shared:
        yield _block(rest, shared, lines)


def _block(data: bytes, shared: int, lines: int) -> Block:
    cleaned = clean(data)
    return Block(cleaned, lines, shared if cleaned is data else len(clean(data[:shared])))


def _last_lines(data: bytes) -> int:
    """Where the part begins that the next block shares: whole lines, or the end of an endless one."""
    if not data.endswith(b"\n"):
        return max(0, len(data) - OVERLAP)
    return data.find(b"\n", max(0, len(data) - SHARED)) + 1


def _cut(chunk: bytes, *, endless: bool) -> int:
    """Where to end a block: after the last line end, or anywhere in a line that has become too long; 0 to read on."""
    end = chunk.rfind(b"\n") + 1
    if end or not endless:
        return end
    return chunk.rfind(b"\r") + 1 or len(chunk)


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    """A stream's bytes, gzip undone where its first bytes say so. A damaged gzip ends where the damage begins."""
    first = stream.read(BLOCK)
    packed = first.startswith(_GZIP_MAGIC)
    pieces = _pieces(first, stream)
    yield from _unpacked(pieces) if packed else pieces


def _pieces(first: bytes, rest: BinaryIO) -> Iterator[bytes]:
    while first:
        yield first
        first = rest.read(BLOCK)


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Gzip members one after the other, never more than `BLOCK` unpacked at a time."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    for piece in pieces:
        left = piece
        while left:
            try:
                data = member.decompress(left, BLOCK)
            except zlib.error:
                return
            if data:
                yield data
            left = member.unconsumed_tail
            if member.eof:
                left, member = member.unused_data, zlib.decompressobj(_GZIP_WINDOW)


@contextmanager
def opened(source: Path | bytes | BinaryIO) -> Iterator[Iterator[bytes]]:
    """The chunks of a path, of bytes or of a stream; only what was opened here is closed."""
    if isinstance(source, Path):
        with source.open("rb") as stream:
            yield chunks_of(stream)
    else:
        yield chunks_of(io.BytesIO(source) if isinstance(source, bytes) else source)
