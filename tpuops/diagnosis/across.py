"""The first cause across all workers and processes, and which of the others' messages are its echoes.

When one worker dies, the others complain longer and louder: a closed socket, a missed heartbeat, a barrier. So kind
comes first (a message that names a cause beats one that reports a loss), then time where the clocks allow it, then the
workers' order. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tpuops.diagnosis.classes import HEALTHY, UNKNOWN
from tpuops.diagnosis.judge import ECHOES, Judgement
from tpuops.diagnosis.signatures import Role
from tpuops.diagnosis.verdict import Basis, Echo, Verdict

_ISO = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d+)?)")
_GLOG = re.compile(rb"(?:^|\n)[^\n]{0,60}?[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d+)?)")
_EPOCH = re.compile(rb"[IWEF]0000 00:00:(\d{9,10}\.\d+)")
_SKEW_S = 2.0
"""Differences below this say nothing: clocks of different machines are not that equal."""


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """One worker's judgement, with where its log came from."""

    judgement: Judgement
    worker: int = 0
    file: str = ""
    override: Verdict | None = None

    @property
    def failure_class(self) -> str:
        """The class, by the log or by how the process ended."""
        return self.override.failure_class if self.override else self.judgement.failure_class


def first_cause(judged: Sequence[LogVerdict]) -> LogVerdict | None:
    """The log that holds the cause; None where no log tells of a failure."""
    telling = [each for each in judged if each.failure_class not in {HEALTHY, UNKNOWN}]
    if not telling:
        return None
    best = min(_kind(each) for each in telling)
    alike = [each for each in telling if _kind(each) == best]
    return _earliest(alike)


def _kind(each: LogVerdict) -> int:
    """0 names a cause, 1 a process's own end, 2 reports what others did."""
    winner = each.judgement.winner
    if each.override is not None:
        return 1
    if winner is None:
        return 2
    if winner.role in ECHOES or each.failure_class == "interrupted":
        return 3 if each.failure_class == "interrupted" else 2
    return 1 if winner.role is Role.EXCEPTION else 0


def _earliest(alike: Sequence[LogVerdict]) -> LogVerdict:
    times = [moment_of(each.judgement) for each in alike]
    kinds = {kind for kind, _ in times}
    if len(kinds) == 1 and kinds != {""}:
        first = min(second for _, second in times)
        return next(each for each, (_, second) in zip(alike, times, strict=True) if second <= first + _SKEW_S)
    return alike[0]


def moment_of(judgement: Judgement) -> tuple[str, float]:
    """When the decisive line was printed: a kind of clock and its seconds; kinds do not compare. ("", 0) unknown."""
    hit = judgement.winner.hit if judgement.winner else None
    if hit is None:
        return "", 0.0
    for text in (hit.line, hit.before[-1500:]):
        found = _moment(text)
        if found is not None:
            return found
    return "", 0.0


def _moment(text: bytes) -> tuple[str, float] | None:
    """The last time stamp in a text."""
    epochs = _EPOCH.findall(text)
    if epochs:
        return "utc", float(epochs[-1])
    stamps = _ISO.findall(text)
    if stamps:
        day, clock = (part.decode() for part in stamps[-1])
        try:
            return "utc", datetime.fromisoformat(f"{day}T{clock.replace(',', '.')[:15]}").replace(
                tzinfo=UTC
            ).timestamp()
        except ValueError:
            return None
    glogs = _GLOG.findall(text)
    if glogs:
        month, day_of_month, hour, minute, second = (float(part) for part in glogs[-1])
        return "glog", (((month * 31 + day_of_month) * 24 + hour) * 60 + minute) * 60 + second
    return None


def verdict_of(each: LogVerdict, advice: str = "", others: Sequence[LogVerdict] = ()) -> Verdict:
    """The verdict a judged log stands for; `others` become its echoes."""
    echoes = tuple(echo for log in (each, *others) for echo in _echoes(log, each))
    if each.override is not None:
        return each.override
    judgement = each.judgement
    winner = judgement.winner
    return Verdict(
        failure_class=judgement.failure_class,
        action=judgement.action,
        decisive_line=text_of(judgement.line),
        line_number=judgement.line_number,
        worker=each.worker,
        confidence=judgement.confidence,
        advice=advice,
        basis=Basis.LOG,
        signature=winner.hit.signature.id if winner else "",
        file=each.file,
        echoes=echoes,
    )


def _echoes(log: LogVerdict, cause: LogVerdict) -> list[Echo]:
    found = [
        Echo(each.failure_class, text_of(each.hit.line), each.hit.line_number, log.worker, log.file)
        for each in log.judgement.echoes[:8]
    ]
    winner = log.judgement.winner
    if log is not cause and winner is not None:
        own = Echo(log.failure_class, text_of(log.judgement.line), log.judgement.line_number, log.worker, log.file)
        found.insert(0, own)
    return found


def text_of(line: bytes) -> str:
    """A line for people and JSON: whatever bytes it held, this is text."""
    return line.decode("utf-8", errors="replace").rstrip("\r\n\x0b")
