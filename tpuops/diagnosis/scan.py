"""One pass over one log: which signatures occur, where, and whether training advanced after them.

A healthy log costs one pass of the engine and no more: a block is looked at line by line only when something
suspicious is in it or still pending. Memory and work a block are bounded by the number of signatures. Nothing is
judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tpuops.diagnosis.engine import Engine
from tpuops.diagnosis.lines import advance_of, bounds, source_of
from tpuops.diagnosis.reading import Block, blocks
from tpuops.diagnosis.signatures import Role, Signature

PLACES = 8
"""Places of one signature that are looked at in a block: that many first ones, and as many after its last progress."""
KEPT = 4
"""Hits kept of one signature and one source since the last progress; later ones are counted."""
SOURCES = 256
"""Interleaved processes told apart; further ones count as one."""
BEFORE, AFTER, TAIL = 3 << 10, 24 << 10, 32 << 10
MARKS, LAST_MARKS = 8, 1 << 10
"""Progress lines read of a block in which something is suspected: so many, then those from the last one on, or in that
many bytes at the block's end."""
JUST_BEFORE = 8 << 10
"""Bytes before a suspicion in which the last progress of each process is looked for."""


@dataclass(slots=True)
class Hit:
    """One occurrence of a signature, with the text around it. `stepping`: training had advanced before it; `count`:
    how many more were seen at least."""

    signature: Signature
    line_number: int
    offset: int
    line: bytes
    line_end: int
    source: bytes = b""
    before: bytes = b""
    after: bytes = b""
    count: int = 1
    stepping: bool = False


@dataclass(slots=True)
class Log:
    """What one pass found. `pending` hits had no progress after them, `withdrawn` ones had."""

    pending: list[Hit]
    withdrawn: list[Hit]
    context: frozenset[str]
    progressed: bool
    lines: int
    tail: bytes
    tail_line: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """A progress line."""

    offset: int
    source: bytes
    value: bytes


@dataclass(slots=True)
class Scan:
    """The pass: feed it blocks in order, then take the log."""

    engine: Engine
    _pending: dict[tuple[str, bytes], list[Hit]] = field(default_factory=dict)
    _withdrawn: dict[str, Hit] = field(default_factory=dict)
    _open: list[Hit] = field(default_factory=list)
    _values: dict[bytes, bytes] = field(default_factory=dict)
    _context: set[str] = field(default_factory=set)
    _quiet: Block | None = None
    _before: Block | None = None
    _recent: Block | None = None
    _base: int = 0
    _stepping: bool = False

    def feed(self, block: Block) -> None:
        """Take the next block."""
        self._base -= block.overlap
        for hit in self._open:
            hit.after += block.data[block.overlap : block.overlap + AFTER - len(hit.after)]
        self._open = [hit for hit in self._open if len(hit.after) < AFTER]
        found = self.engine.which(block.data)
        progress = self.engine.progress_index in found
        suspects = sorted(index for index in found if index < self.engine.progress_index)
        if suspects or (progress and self._pending):
            self._look(block, suspects, progress)
        elif progress:
            self._quiet = block
        self._before, self._recent = self._recent, block
        self._base += len(block.data)

    def log(self) -> Log:
        """What was found, once the last block is in."""
        recent, before = self._recent, self._before
        if recent is None:
            return Log([], [], frozenset(), False, 0, b"", 1)
        whole = (before.data if before else b"") + recent.data[recent.overlap if before else 0 :]
        lines = recent.lines_before + recent.data.count(b"\n", recent.overlap)
        tail = whole[-TAIL:]
        cut = 0 if len(tail) == len(whole) else tail.find(b"\n") + 1
        if self._quiet is not None and not self._stepping:
            self._remember(self._quiet)
        return Log(
            pending=sorted((hit for hits in self._pending.values() for hit in hits), key=lambda hit: hit.offset),
            withdrawn=sorted(self._withdrawn.values(), key=lambda hit: hit.offset),
            context=frozenset(self._context),
            progressed=self._stepping,
            lines=lines + (0 if whole.endswith(b"\n") else 1),
            tail=tail[cut:],
            tail_line=lines - tail[cut:].count(b"\n") + 1,
        )

    def _look(self, block: Block, suspects: Sequence[int], progress: bool) -> None:
        """Find what matters in a block and take it in the log's order, withdrawing what progress answers.

        Progress lines are only read from shortly before the first suspicion to where nothing is suspected any more.
        """
        if self._quiet is not None:
            self._remember(self._quiet)
        last = self._last_progress(block) if progress else 0
        hits = sorted((hit for index in suspects for hit in self._hits(index, block, last)), key=lambda hit: hit.offset)
        first = max(0, hits[0].offset - self._base) if hits else 0
        if first and progress:
            self._remember(Block(block.data[max(0, first - JUST_BEFORE) : first], 0))
        taken = 0
        for mark in self._few_marks(block, first, last) if progress else ():
            while taken < len(hits) and hits[taken].offset <= mark.offset:
                self._take(hits[taken])
                taken += 1
            self._advance(mark)
            if taken == len(hits) and not self._pending:
                self._quiet = block
                return
        for hit in hits[taken:]:
            self._take(hit)

    def _remember(self, quiet: Block) -> None:
        """Bring what is known of progress up to date with the end of a block that held nothing else.

        Of one process the last lines tell, of several their last lines lie further apart.
        """
        for size in (LAST_MARKS, JUST_BEFORE):
            for mark in self._marks(Block(quiet.data[-size:], 0), 0):
                self._note(mark)
            if self._stepping and not self._interleaved:
                break
        self._quiet = None

    def _few_marks(self, block: Block, place: int, last: int) -> Iterator[_Mark]:
        """What withdraws a suspicion is that progress came at all after it, so few lines of one process are read."""
        read = place
        for count, mark in enumerate(self._marks(block, place)):
            yield mark
            read = mark.offset - self._base + 1
            if count >= MARKS and not self._interleaved:
                break
        else:
            return
        yield from self._marks(block, max(read, min(last, len(block.data) - LAST_MARKS)))

    def _marks(self, block: Block, place: int) -> Iterator[_Mark]:
        while (match := self.engine.progress.search(block.data, place)) is not None:
            begin, end = bounds(block.data, match.start())
            line = block.data[begin:end]
            if end > block.overlap:
                yield _Mark(self._base + match.start(), source_of(line), advance_of(line))
            place = max(end, match.end(), place + 1)

    def _last_progress(self, block: Block) -> int:
        """Where the last progress line of a block begins."""
        end = len(block.data)
        while end > 0:
            begin = block.data.rfind(b"\n", 0, end - 1) + 1
            if self.engine.progress.search(block.data[begin:end]):
                return begin
            end = begin
        return 0

    def _hits(self, index: int, block: Block, last: int) -> Iterable[Hit]:
        signature = self.engine.signatures[index]
        if signature.role is Role.CONTEXT:
            self._context.add(signature.id)
            return []
        if not last and self._known_well(signature):
            return []
        starts = self._starts(index, block, 0)
        if last and len(starts) == PLACES:
            starts |= self._starts(index, block, last)
        return [self._hit(signature, block, start) for start in sorted(starts)]

    def _known_well(self, signature: Signature) -> bool:
        """Whether further places of a signature would only be counted: enough are kept, and the log is of one process.

        The block then counts once, so counts are lower bounds.
        """
        kept = self._pending.get((signature.id, b""), [])
        if len(kept) < KEPT or self._interleaved:
            return False
        kept[-1].count += 1
        return True

    @property
    def _interleaved(self) -> bool:
        """Whether lines of several processes were seen."""
        return any(self._values) or any(source for _, source in self._pending)

    def _starts(self, index: int, block: Block, begin: int) -> set[int]:
        starts: set[int] = set()
        for start, end in self.engine.places(index, block.data, begin):
            if end > block.overlap:
                starts.add(start)
            if len(starts) == PLACES:
                break
        return starts

    def _hit(self, signature: Signature, block: Block, start: int) -> Hit:
        start += len(block.data[start : start + 64]) - len(block.data[start : start + 64].lstrip(b"\n\x0b"))
        begin, end = bounds(block.data, start)
        line = block.data[begin:end]
        earlier = self._recent.data[-BEFORE:] if self._recent is not None and begin < BEFORE else b""
        return Hit(
            signature=signature,
            line_number=_line_number(block, start),
            offset=self._base + start,
            line=line,
            line_end=self._base + end,
            source=source_of(line),
            before=(earlier + block.data[max(block.overlap, begin - BEFORE) : begin])[-BEFORE:],
            after=block.data[end : end + AFTER],
        )

    def _take(self, hit: Hit) -> None:
        hit.stepping = self._stepping
        if len(self._pending) > SOURCES * 8:
            hit.source = b""
        kept = self._pending.setdefault((hit.signature.id, hit.source), [])
        if len(kept) >= KEPT:
            kept[-1].count += 1
            return
        kept.append(hit)
        if len(hit.after) < AFTER:
            self._open.append(hit)

    def _note(self, mark: _Mark) -> bool:
        """Whether the mark is news."""
        source = mark.source if mark.source in self._values or len(self._values) < SOURCES else b""
        if not mark.value or self._values.get(source) == mark.value:
            return False
        self._values[source] = mark.value
        self._stepping = True
        return True

    def _advance(self, mark: _Mark) -> None:
        """Progress withdraws every suspicion before it, except of another process of an interleaved log."""
        if not self._note(mark):
            return
        for (name, source), hits in list(self._pending.items()):
            if source and mark.source and source != mark.source:
                continue
            answered = [hit for hit in hits if hit.line_end <= mark.offset]
            if answered:
                self._withdrawn[name] = answered[-1]
            left = [hit for hit in hits if hit.line_end > mark.offset]
            if left:
                self._pending[name, source] = left
            else:
                del self._pending[name, source]


def _line_number(block: Block, place: int) -> int:
    """1-based; a place in the part shared with the block before lies before the lines counted so far."""
    if place >= block.overlap:
        return block.lines_before + block.data.count(b"\n", block.overlap, place) + 1
    return block.lines_before - block.data.count(b"\n", place, block.overlap) + 1


def scanned(engine: Engine, chunks: Iterable[bytes], *, stepping: bool = False) -> Log:
    """The log of a whole stream; `stepping` where training is known to have advanced before it begins."""
    scan = Scan(engine, _stepping=stepping)
    for block in blocks(chunks):
        scan.feed(block)
    return scan.log()
