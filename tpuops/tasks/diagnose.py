"""Explaining a log that somebody has, with no cloud and no account, or what a run left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuops.tasks.task import Answer, Invocation, UsageError, task

if TYPE_CHECKING:
    from tpuops.diagnosis.verdict import Shape

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for beside the log."""

    more: Any = None
    signatures: Any = None
    run: str = ""
    shape: str = ""
    explain: bool = False


@task(
    "env",
    "cloud",
    "json",
    env_default="",
    positional=["log"],
    iterable=["more", "signatures"],
    given=Wanted,
    help={
        "log": "the log, plain or gzip; - for standard input",
        "more": "another worker's log of the same run; may be given several times",
        "signatures": "a file with messages of your own (see environments/signatures/example.yaml); several are taken",
        "run": "in place of a log: a run of the environment by its id, or newest; every attempt, and machines refused",
        "shape": "what it ran on: a TPU type or a number of workers, with ,spot or ,queued (default: v3-8)",
        "explain": "show every message that was recognised, and why one of them won",
    },
)
async def diagnose(asked: Invocation, wanted: Wanted, log: str) -> Answer:
    """Explain a log, or a run: what happened, the line that says so, what would be done, advice."""
    import shutil

    from tpuops.report.diagnosis import WIDTH, told
    from tpuops.report.log import cleaned

    if wanted.run and (log or wanted.more):
        raise UsageError("--run explains a run's own logs; other logs are explained without it", hint="leave one out")
    documents = await _of_run(asked, wanted) if wanted.run else _of_logs(asked, wanted, log)
    person = asked.console.shows_data
    width = min(shutil.get_terminal_size().columns, WIDTH) if person else WIDTH
    shown = told(cleaned(documents), explain=wanted.explain, colour=person, width=width)
    return Answer(documents, shown)


diagnose.replacing = "run"


def _of_logs(asked: Invocation, wanted: Wanted, log: str) -> Any:
    from tpuops.diagnosis import report_of
    from tpuops.diagnosis.engine import engine_for
    from tpuops.diagnosis.signatures import texts_of, with_texts

    names = [log, *(wanted.more or ())]
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read once", hint="name files for the other logs")
    shape = _shape(wanted.shape)
    progress, files = _own(asked)
    texts = texts_of([*files, *(Path(each).expanduser() for each in wanted.signatures or ())])
    engine = engine_for(progress, texts)
    for conflict in with_texts(texts).conflicts:
        asked.say(f"conflict: {conflict}")
    try:
        return report_of([_source(name) for name in names], shape, engine=engine)
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename or log}: {error.strerror}",
            hint="name a log, or - to read it from standard input",
        ) from error


def _own(asked: Invocation) -> tuple[str, tuple[Path, ...]]:
    """The progress pattern and signature files of the environment, where one is named."""
    if not asked.env:
        return "", ()
    from tpuops.environment import find, load

    environment = load(find(asked.env, Path.cwd()))
    return environment.train.progress or "", environment.recovery.signature_files(environment.path)


async def _of_run(asked: Invocation, wanted: Wanted) -> Any:
    """One document an attempt; the attempt that still runs is explained by its log alone."""
    from tpuops.lifecycle.diagnosed import documents, traces
    from tpuops.tasks.opening import opened
    from tpuops.tasks.task import unnamed

    if not asked.env:
        raise unnamed()
    async with opened(asked, "diagnose") as (site, _):
        return documents(await traces(site, wanted.run), site, _shape(wanted.shape))


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
