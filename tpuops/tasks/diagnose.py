"""Explaining a log that somebody has, with no cloud and no account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuops.tasks.task import Answer, Invocation, UsageError, task

if TYPE_CHECKING:
    from tpuops.diagnosis.verdict import Shape

STANDARD_INPUT = "-"


@task(
    "json",
    positional=["log"],
    iterable=["more"],
    help={
        "log": "the log, plain or gzip; - for standard input",
        "more": "another worker's log of the same run; may be given several times",
        "shape": "what it ran on: a TPU type or a number of workers, with ,spot or ,queued (default: v3-8)",
        "explain": "show every message that was recognised, and why one of them won",
    },
)
def diagnose(asked: Invocation, log: str, more: Any = None, shape: str = "", explain: bool = False) -> Answer:
    """Explain a log: what happened, the line that says so, what would be done, advice."""
    from tpuops.diagnosis import report_of
    from tpuops.report.diagnosis import told
    from tpuops.report.log import cleaned

    names = [log, *(more or ())]
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read once", hint="name files for the other logs")
    found_on = _shape(shape)
    try:
        documents = report_of([_source(name) for name in names], found_on)
    except OSError as error:
        raise UsageError(f"cannot read {error.filename or log}: {error.strerror}") from error
    shown = told(cleaned(documents), explain=explain, colour=asked.console.shows_data)
    return Answer(documents, shown)


def _source(name: str) -> Any:
    import sys

    return ("standard input", sys.stdin.buffer) if name == STANDARD_INPUT else Path(name).expanduser()


def _shape(given: str) -> Shape | None:
    """`v4-32,spot` or `4,queued` as a shape.

    Raises:
        UsageError: a word of it is neither.
    """
    from tpuops.diagnosis.verdict import Shape
    from tpuops.facts.catalogue import accelerator, spelled_otherwise

    if not given:
        return None
    workers, traits = 1, set[str]()
    for word in given.replace(" ", "").split(","):
        known = accelerator(word) or accelerator(spelled_otherwise(word))
        if word in {"spot", "queued"}:
            traits.add(word)
        elif known is not None:
            workers = known.workers
        elif word.isascii() and word.isdigit() and 1 <= int(word) <= 100_000:
            workers = int(word)
        else:
            raise UsageError(
                f"--shape {given}: {word!r} is no TPU type and no number of workers",
                hint="write it as v3-8, v4-32,spot or 4,queued",
            )
    return Shape(workers, spot="spot" in traits, queued="queued" in traits)
