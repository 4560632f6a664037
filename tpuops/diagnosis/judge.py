"""The cause in one log: which of the messages that fired explains the others.

The order of precedence is the taxonomy's: what a state says, then messages that name a cause, then suspects, then
echoes and bare exceptions in the order of the log, then wrappers. Within a rank the first message wins, since what
follows is consequence. Everything here is a pure function of one scanned log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpuops.diagnosis.classes import CLASSES, HEALTHY, UNKNOWN
from tpuops.diagnosis.engine import Engine
from tpuops.diagnosis.lines import bare
from tpuops.diagnosis.messages import are_ignored, are_shipped, goes_on, message_around
from tpuops.diagnosis.scan import Hit, Log
from tpuops.diagnosis.signatures import Case, Role, Signature
from tpuops.diagnosis.verdict import Action

_RANK = {
    Role.STATE: 0,
    Role.CAUSE: 1,
    Role.SUSPECT: 2,
    Role.ECHO: 3,
    Role.EXCEPTION: 3,
    Role.LAST: 4,
    Role.WRAPPER: 5,
    Role.HINT: 6,
}
ECHOES = frozenset({Role.ECHO, Role.WRAPPER, Role.HINT})
_ALARM = re.compile(
    rb"\b(?:Traceback \(most recent call last\)|[A-Z]\w*(?:Error|Exception)\b|(?:error(?![\w.-])|ERROR|Error"
    rb"|FATAL|Fatal|fatal|FAILED|Aborted|[Ff]ailed (?:to|with)|core dumped|PANIC|panic:|denied|refused|non-zero"
    rb"|not found|NOT_FOUND)\b)|^F[0-9]{4} |\[Errno -?[0-9]+\]"
    rb"|\b(?:ABORTED|UNAVAILABLE|INTERNAL|UNKNOWN|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION): ",
    re.MULTILINE,
)
_CALM = re.compile(rb"(?:INFO|DEBUG)\b|I[0-9]{4} ")
_CERTAIN = re.compile(rb"Traceback \(most|[A-Z]\w*(?:Error|Exception)\b|FATAL|Error re(?:corded|ported)")
_WORDS = re.compile(rb"[A-Za-z]{3}|[0-9]")
_NUMBERS = re.compile(rb"[0-9]+")
_NEAR = 4
"""Lines shown on each side of one that no message explains."""
_HEARTBEATS = 8
"""Lines that differ in numbers alone, from which on they are taken for a heartbeat."""
_ECHO_OF = "echo of "
EXPLAINED = "its surroundings explain it"
HARMLESS = "part of a message that is known to be harmless"
NAMES_A_CAUSE = _RANK[Role.CAUSE]
WEIGHTLESS = 9


@dataclass(frozen=True, slots=True)
class Finding:
    """One hit with the class and action its surroundings give it. `dropped` says why it counts for nothing."""

    hit: Hit
    failure_class: str
    action: Action
    role: Role
    dropped: str = ""

    @property
    def rank(self) -> int:
        """Lower wins."""
        return _RANK[self.role]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one log says. `line` and its number are the decisive ones; `findings` hold every hit, also dropped ones.

    `around` are numbered lines around the decisive one, where no message won and so none has them.
    """

    failure_class: str
    action: Action
    line: bytes = b""
    line_number: int = 0
    confidence: str = "low"
    winner: Finding | None = None
    findings: tuple[Finding, ...] = ()
    why: str = ""
    around: tuple[tuple[int, bytes], ...] = ()

    @property
    def echoes(self) -> tuple[Finding, ...]:
        """Findings on other lines than the winner, of other classes: those that lost, and those it explains."""
        return tuple(
            each
            for each in self.findings
            if (self.winner is None or each.hit.line_number != self.winner.hit.line_number)
            and each.failure_class != self.failure_class
            and (not each.dropped or each.dropped.startswith(_ECHO_OF))
        )


def weight(judgement: Judgement) -> int:
    """The rank of the message that decided, lower is weightier; `WEIGHTLESS` where none did."""
    return judgement.winner.rank if judgement.winner is not None else WEIGHTLESS


def is_harmless(judgement: Judgement, signature: Signature) -> bool:
    """Whether a signature fired there, and only in messages that are known, or shown by others, to be harmless."""
    own = [each for each in judgement.findings if each.hit.signature is signature]
    return bool(own) and all(each.dropped in {HARMLESS, EXPLAINED} for each in own)


def judge(log: Log, engine: Engine, *, failed: bool = False) -> Judgement:
    """The verdict on one log by its text alone. `failed`: the process is known to have ended with a code other than 0,
    so that progress after a message (buffered output, flushed at exit) does not clear it."""
    findings = _findings(log.pending, log, engine)
    chosen = _choose(findings)
    if (chosen is None or (failed and chosen.role in ECHOES)) and failed:
        late = _findings(log.withdrawn, log, engine)
        chosen = _choose([each for each in late if each.role not in ECHOES]) or chosen
        findings = (*findings, *late)
    if chosen is not None:
        return _decided(chosen, findings)
    return _last_words(log, engine, findings) or _nothing_found(log, engine, findings, failed)


def _findings(hits: Sequence[Hit], log: Log, engine: Engine) -> tuple[Finding, ...]:
    benign = [hit for hit in hits if _is_benign(hit, engine)]
    left = [hit for hit in hits if not any(hit is each for each in benign)]
    fired = {hit.signature.id for hit in left} | log.context | {hit.signature.id for hit in log.withdrawn}
    seen = Counter[str]()
    for hit in left:
        seen[hit.signature.id] += hit.count
    resolved = [_resolved(hit, fired, seen[hit.signature.id]) for hit in left]
    return (
        *(_explained_away(each, resolved) for each in resolved),
        *(_finding(hit, dropped=HARMLESS) for hit in benign),
    )


def _is_benign(hit: Hit, engine: Engine) -> bool:
    """Whether the message that a hit is part of is known to be harmless, or an exception that Python ignored."""
    lines = [*hit.before.replace(b"\x0b", b"\n").split(b"\n")[:-1], hit.line]
    message = message_around(hit.before, hit.line, hit.after)
    return bool(engine.benign.search(message)) or len(lines) - 1 in are_ignored(lines)


def _finding(hit: Hit, dropped: str = "") -> Finding:
    signature = hit.signature
    return Finding(hit, signature.failure_class, signature.action, signature.role, dropped)


def _resolved(hit: Hit, fired: set[str], seen: int) -> Finding:
    """The hit, refined by the first of its cases that fits."""
    signature = hit.signature
    if seen < signature.least:
        return _finding(hit, dropped=f"seen {seen} times, needs {signature.least}")
    case = next((each for each in signature.cases if _fits(each, hit, fired)), None)
    if case is None:
        return _finding(hit)
    if case.drop:
        return _finding(hit, dropped=EXPLAINED)
    failure_class = case.failure_class or signature.failure_class
    fallback = CLASSES[failure_class].action if case.failure_class else signature.action
    return Finding(hit, failure_class, case.action or fallback, signature.role)


def _fits(case: Case, hit: Hit, fired: set[str]) -> bool:
    if case.stepping is not None and case.stepping != hit.stepping:
        return False
    return fired.issuperset(case.given) and not fired.intersection(case.absent)


def _explained_away(each: Finding, others: Iterable[Finding]) -> Finding:
    """A hit yields to the classes it is commonly an echo of, wherever in the log they are."""
    if each.dropped:
        return each
    for other in others:
        if _yields(each, other) and not (_yields(other, each) and _order(each) < _order(other)):
            return Finding(each.hit, each.failure_class, each.action, each.role, f"{_ECHO_OF}{other.hit.signature.id}")
    return each


def _yields(each: Finding, other: Finding) -> bool:
    if other.dropped or other is each or other.failure_class == each.failure_class:
        return False
    if other.rank >= _RANK[Role.WRAPPER] and other.rank > each.rank:
        return False
    named = each.hit.signature.echo_of
    return other.failure_class in named or ("any" in named and other.rank < each.rank)


def _order(each: Finding) -> tuple[int, int, int]:
    """What wins: rank, then the first line; on one line the inner message of a cause, the outer one of an echo."""
    offset = each.hit.offset
    return each.rank, each.hit.line_number, -offset if each.rank <= _RANK[Role.SUSPECT] else offset


def _choose(findings: Iterable[Finding]) -> Finding | None:
    counting = [each for each in findings if not each.dropped]
    return min(counting, key=_order, default=None)


def _decided(chosen: Finding, findings: tuple[Finding, ...]) -> Judgement:
    return Judgement(
        failure_class=chosen.failure_class,
        action=chosen.action,
        line=chosen.hit.line,
        line_number=chosen.hit.line_number,
        confidence=chosen.hit.signature.confidence,
        winner=chosen,
        findings=findings,
        why=f"{chosen.hit.signature.id} ({chosen.role}) is first of the highest rank",
    )


def _last_words(log: Log, engine: Engine, findings: tuple[Finding, ...]) -> Judgement | None:
    """Messages that mean something only when nothing comes after them."""
    for number, line in (_last_line(log), _before_idling(log)):
        judgement = _said_last(number, line, log, engine, findings)
        if judgement is not None:
            return judgement
    return None


def _said_last(number: int, line: bytes, log: Log, engine: Engine, findings: tuple[Finding, ...]) -> Judgement | None:
    for signature in engine.last_words(line) if line else ():
        if any(case.drop and case.stepping == log.progressed for case in signature.cases):
            continue
        return Judgement(
            signature.failure_class,
            signature.action,
            line,
            number,
            "low",
            findings=findings,
            around=_around(log, number),
            why=f"{signature.id}: the log ends here, and nothing else was found",
        )
    return None


def _last_line(log: Log) -> tuple[int, bytes]:
    """The last line that says something, with its number; of bars that overwrite each other the last one."""
    counted = log.tail.split(b"\n")
    number = next((at for at in range(len(counted) - 1, -1, -1) if _WORDS.search(bare(counted[at]))), 0)
    pieces = counted[number].split(b"\x0b")
    return log.tail_line + number, next((piece for piece in reversed(pieces) if _WORDS.search(bare(piece))), b"")


def _before_idling(log: Log) -> tuple[int, bytes]:
    """The last line before a run of lines that differ in numbers alone: a heartbeat is no news, and progress is known
    by its own signs."""
    lines = [line for line in enumerate(log.tail.split(b"\n"), log.tail_line) if _WORDS.search(line[1])]
    shapes = [_NUMBERS.sub(b"", bare(line)) for _, line in lines]
    idle = next((count for count, shape in enumerate(reversed(shapes)) if shape != shapes[-1]), len(shapes))
    return lines[-idle - 1] if _HEARTBEATS <= idle < len(lines) else (0, b"")


def _nothing_found(log: Log, engine: Engine, findings: tuple[Finding, ...], failed: bool) -> Judgement:
    number, line = _last_line(log)
    explained = frozenset(each.hit.line_number for each in findings if each.dropped in {EXPLAINED, HARMLESS})
    alarm = _first_alarm(log, engine, explained)
    if failed or alarm is not None or not line:
        if alarm is not None:
            number, line = alarm
        return Judgement(
            UNKNOWN, Action.NONE, line, number, "low", None, findings, "no signature matched", _around(log, number)
        )
    confidence = "high" if log.progressed else "medium"
    return Judgement(HEALTHY, Action.NONE, line, number, confidence, findings=findings, why="nothing wrong is in it")


def _around(log: Log, number: int) -> tuple[tuple[int, bytes], ...]:
    """The lines around one of the log's tail, and the log's last ones."""
    lines = list(enumerate(log.tail.split(b"\n"), log.tail_line))
    last = next((at for at, line in reversed(lines) if _WORDS.search(line)), number)
    near = [each for each in lines if abs(each[0] - number) <= _NEAR or last - _NEAR < each[0] <= last]
    return tuple(near)


def _is_alarm(line: bytes) -> bool:
    """Whether a line sounds like trouble; where its own level is INFO, only what no program says lightly does."""
    return bool((_CERTAIN if _CALM.match(bare(line)) else _ALARM).search(line))


def _first_alarm(log: Log, engine: Engine, explained: frozenset[int]) -> tuple[int, bytes] | None:
    """The first line after the last progress that sounds like trouble, though no signature knows it."""
    whole = enumerate(log.tail.split(b"\n"), log.tail_line)
    pieces = [(number, piece) for number, line in whole for piece in line.split(b"\x0b")]
    lines = [piece for _, piece in pieces]
    last = next((at for at in range(len(lines) - 1, -1, -1) if engine.progress.search(lines[at])), -1)
    shipped, ignored = are_shipped(lines[last + 1 :]), are_ignored(lines)
    harmless = last >= 0 and bool(engine.benign.search(lines[last]))
    for at in range(last + 1, len(lines)):
        belongs = harmless and goes_on(lines[at], lines[at - 1], shipped=shipped)
        harmless = belongs or at in ignored or bool(engine.benign.search(lines[at]))
        if not harmless and pieces[at][0] not in explained and _is_alarm(lines[at]):
            return pieces[at]
    return None
