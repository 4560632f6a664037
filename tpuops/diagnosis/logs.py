"""What `diagnose LOG` shows: the verdict on logs alone, as plain data for JSON and for the report that people read.

One log gives one object; several logs of one run give a list in their order, in which the object that holds the run's
first cause has `cause: true` and the others say whose echo they are. Reads the sources it is given and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from tpuops.diagnosis.across import LogVerdict, first_cause, text_of, verdict_of
from tpuops.diagnosis.advice import advice_for
from tpuops.diagnosis.classes import CLASSES, HEALTHY, UNKNOWN
from tpuops.diagnosis.engine import Engine, engine_for, packaged_engine
from tpuops.diagnosis.evidence import diagnose
from tpuops.diagnosis.examine import examine
from tpuops.diagnosis.judge import ECHOES, Finding, Judgement
from tpuops.diagnosis.ladder import decide
from tpuops.diagnosis.reading import opened
from tpuops.diagnosis.verdict import Action, Budgets, Decision, Evidence, Past, Shape, Verdict, WorkerEvidence

Source = Path | bytes | BinaryIO
_WORKER_IN_NAME = re.compile(r"(?:worker|host|rank|task|process|w)[-_.]?(\d+)", re.IGNORECASE)
_CONTEXT_LINES, _CONTEXT_CHARS = 4, 1000
_NO_LOG = Judgement(UNKNOWN, Action.NONE, why="there is no log: what is known beside it decided")


Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside one attempt's log; `evidence` has its log too. `past` is what failed before it."""

    name: str
    evidence: Evidence
    past: tuple[Past, ...] = ()
    step: int = -1


def report_of_attempt(known: Known, shape: Shape, budgets: Budgets) -> Document:
    """The document of one attempt that ended, judged with everything that is known of it. Keys as `report_of`."""
    used = engine_for(known.evidence.progress, known.evidence.signatures)
    judged = [_examined(each, known, used) for each in known.evidence.workers]
    verdict = replace(diagnose(known.evidence, engine=used), file=known.name)
    chosen = next((each.judgement for each in judged if each.worker == verdict.worker), _NO_LOG)
    by_log = bool(verdict.decisive_line) and verdict.line_number == chosen.line_number
    decision = decide(verdict, shape, known.past, budgets, step=known.step)
    return _shown(verdict, decision, chosen if by_log else None) | {
        "cause": verdict.failure_class != HEALTHY,
        "explain": explanation(chosen),
    }


def _examined(each: WorkerEvidence, known: Known, engine: Engine) -> LogVerdict:
    failed = each.exit_code not in {None, 0} or bool(each.signal)
    return LogVerdict(examine([each.log], engine, failed=failed), worker=each.worker, file=known.name)


def report_of(
    sources: Sequence[Source | tuple[str, Source]], shape: Shape | None = None, *, engine: Engine | None = None
) -> Document | list[Document]:
    """One document for one log, a list for several (files, bytes, binary streams; a stream may be given with a name).

    Raises `OSError` where a file cannot be read. Keys that scripts rely on: class, action, decisive_line, line_number,
    confidence, advice; beside them move, reason, worker, file, echoes, cause, echo_of, context and explain.
    """
    used = engine or packaged_engine()
    judged = [_judged(each, place, used) for place, each in enumerate(sources)]
    cause = first_cause(judged)
    documents = [_document(each, cause, shape or Shape()) for each in judged]
    return documents[0] if len(documents) == 1 else documents


def _judged(given: Source | tuple[str, Source], place: int, engine: Engine) -> LogVerdict:
    name, source = given if isinstance(given, tuple) else (_name_of(given), given)
    with opened(source) as chunks:
        judgement = examine(chunks, engine)
    found = _WORKER_IN_NAME.search(Path(name).name) if name else None
    return LogVerdict(judgement, worker=int(found.group(1)) if found else place, file=name)


def _name_of(source: Source) -> str:
    if isinstance(source, Path):
        return str(source)
    return "" if isinstance(source, bytes) else str(getattr(source, "name", ""))


def _document(each: LogVerdict, cause: LogVerdict | None, shape: Shape) -> Document:
    verdict = verdict_of(each, advice=advice_for(each.judgement))
    decision = decide(verdict, shape, (), Budgets(), step=0)
    document = _shown(verdict, decision, each.judgement) | {
        "cause": each is cause or (cause is None and verdict.failure_class == HEALTHY),
        "explain": explanation(each.judgement),
    }
    if cause is not None and each is not cause and _is_echo(each):
        document["echo_of"] = {"file": cause.file, "worker": cause.worker, "class": cause.failure_class}
    return document


def _shown(verdict: Verdict, decision: Decision, judgement: Judgement | None) -> Document:
    """What both kinds of document have in common; `judgement` is the log's, where its line decided."""
    return {
        "class": verdict.failure_class,
        "action": str(verdict.action),
        "decisive_line": verdict.decisive_line,
        "line_number": verdict.line_number,
        "confidence": verdict.confidence,
        "advice": verdict.advice,
        "meaning": CLASSES[verdict.failure_class].meaning,
        "move": str(decision.move),
        "reason": decision.reason,
        "worker": verdict.worker,
        "file": verdict.file,
        "basis": str(verdict.basis),
        "echoes": [
            {"class": echo.failure_class, "line": echo.line, "line_number": echo.line_number} for echo in verdict.echoes
        ],
        "context": _context(judgement) if judgement is not None else [],
    }


def _is_echo(each: LogVerdict) -> bool:
    winner = each.judgement.winner
    return winner is not None and (winner.role in ECHOES or each.failure_class == "interrupted")


def _context(judgement: Judgement) -> list[dict[str, Any]]:
    """The decisive line with a few lines around it, numbered; of lines that overwrite each other the last."""
    if judgement.winner is None:
        return [{"line_number": number, "text": _last_written(line)} for number, line in judgement.around]
    hit = judgement.winner.hit
    before = [line for line in hit.before.split(b"\n")[:-1]][-_CONTEXT_LINES:]
    after = hit.after.split(b"\n")[1 : _CONTEXT_LINES + 1]
    first = hit.line_number - len(before)
    lines = [*before, hit.line, *after]
    return [{"line_number": first + offset, "text": _last_written(line)} for offset, line in enumerate(lines)]


def _last_written(line: bytes) -> str:
    pieces = [piece for piece in line.split(b"\x0b") if piece.strip()]
    return text_of(pieces[-1] if pieces else b"")[:_CONTEXT_CHARS]


def explanation(judgement: Judgement) -> dict[str, Any]:
    """Which signatures fired, where, what was set aside and why, and why the winner won."""
    return {"why": judgement.why, "fired": [_fired(each, judgement) for each in judgement.findings]}


def _fired(each: Finding, judgement: Judgement) -> dict[str, Any]:
    return {
        "signature": each.hit.signature.id,
        "family": each.hit.signature.family,
        "framework": each.hit.signature.framework,
        "origin": each.hit.signature.origin,
        "class": each.failure_class,
        "role": str(each.role),
        "line_number": each.hit.line_number,
        "line": text_of(each.hit.line)[:400],
        "count": each.hit.count,
        "source": text_of(each.hit.source),
        "won": each is judgement.winner,
        "set_aside": each.dropped,
    }


def verdict_on_text(text: bytes, engine: Engine | None = None) -> Verdict:
    """The verdict on one log's bytes alone."""
    used = engine or packaged_engine()
    judgement = examine([text], used)
    return verdict_of(LogVerdict(judgement), advice=advice_for(judgement))
