"""finish: write the outcome down, tear down by the file's word, close the record, and say how it ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tpuops.diagnosis.verdict import Action
from tpuops.lifecycle.ends import Ending
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Story, summary
from tpuops.stages.apply import Crew
from tpuops.stages.collect import Collected
from tpuops.stages.record import CLOSED, ENDED
from tpuops.stages.teardown import Left, Torn, kept_bucket, remove, seen, standing, unknown
from tpuops.stages.watch import AttemptEnd

DONE, FAILED_TRAINING, GAVE_UP, STILL_BILLING, LIMIT, PERSON, CAPACITY, STOPPED = 0, 10, 5, 6, 8, 3, 4, 143
_EXIT_BY_ACTION = {Action.FIX_CREDENTIALS: PERSON, Action.FIX_SSH_KEYS: PERSON}


@dataclass(frozen=True, slots=True)
class Report:
    """The end of `run` or `train`; `document` is what `--json` prints."""

    exit_code: int
    outcome: str
    cause: str = ""
    advice: str = ""
    run: dict[str, Any] = field(default_factory=dict)
    saved: tuple[dict[str, Any], ...] = ()
    kept: tuple[Left, ...] = ()
    remains: tuple[Left, ...] = ()
    cost_usd: float | None = None

    @property
    def document(self) -> dict[str, Any]:
        """JSON values, with the fields of DESIGN.md 5."""
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "cause": self.cause,
            "advice": self.advice,
            **self.run,
            "saved": list(self.saved),
            "kept": [asdict(left) for left in self.kept],
            "remains": [asdict(left) for left in self.remains],
            "cost_usd": self.cost_usd,
        }


def judged(ending: Ending) -> tuple[int, str]:
    """The exit code and the outcome's word (pure)."""
    if ending.succeeded:
        return DONE, "done"
    if ending.stopped_by:
        return STOPPED, "stopped"
    if ending.decision.budget:
        return GAVE_UP, "gave-up"
    return _EXIT_BY_ACTION.get(ending.verdict.action, FAILED_TRAINING), "failed"


async def finish(story: Story, ending: Ending, *, tear_down: bool) -> Report:
    """Say how it ended, then close; a machine that still holds unsaved outputs stays."""
    report = replace(told(ending), run={**summary(story), "class": ending.verdict.failure_class})
    if not ending.gone:
        report = with_unsaved(report, story, ending.collected)
    return await close(story, report, tear_down=tear_down)


async def close(story: Story, report: Report, *, tear_down: bool) -> Report:
    """Write the outcome into the record, tear down by the file's word, close the record once nothing is left over."""
    outcome = {"report": recorded(report), "unsaved": bool(report.remains)}
    story.record = replace(story.record, state=ENDED, outcome=outcome)
    await story.note()
    done = await torn_down(story.site, story.crew, report, tear_down=tear_down)
    if not done.remains:
        outcome = {"report": {**recorded(report), "cost_usd": done.cost_usd}}  # for whoever was not told of this end
        await story.note(state=CLOSED, outcome=outcome)
    return done


async def torn_down(site: Site, crew: Crew, report: Report, *, tear_down: bool) -> Report:
    """The report after teardown: machines whose outputs are unsaved, or that the file keeps, stay and are named."""
    words = site.environment.teardown
    word = words.success if report.exit_code == DONE else words.failure
    if report.outcome == "stopped":
        word = words.interrupt
    why = "the file says keep" if tear_down else "`train` and `stop` remove nothing"
    crew.forget()
    torn = await end_machines(site, crew, delete=tear_down and word == "delete" and not report.remains, why=why)
    remains = report.remains + torn.remains
    return replace(
        report,
        exit_code=STILL_BILLING if remains else report.exit_code,
        kept=torn.kept,
        remains=remains,
        cost_usd=site.meter.usd(),
    )


def recorded(report: Report) -> dict[str, Any]:
    """The part of a report that a later command needs in order to finish what this one began."""
    return {key: getattr(report, key) for key in ("exit_code", "outcome", "cause", "advice", "run", "saved")}


def told(ending: Ending) -> Report:
    """What the ending says by itself (pure)."""
    code, outcome = judged(ending)
    if ending.succeeded:
        return Report(code, outcome)
    reason = ending.decision.reason
    if ending.stopped_by:
        return Report(code, outcome, reason)
    return Report(code, outcome, ending.verdict.decisive_line or reason, ending.verdict.advice or reason)


def with_unsaved(report: Report, story: Story, results: Collected | AttemptEnd) -> Report:
    """The report with what was saved, and with what a living machine still holds as something that remains (pure)."""
    if isinstance(results, AttemptEnd):
        return report
    saved = tuple(asdict(file) for file in results.saved)
    if results.is_complete:
        return replace(report, saved=saved)
    name = story.site.environment.name
    why = f"outputs are not saved: {results.problem or ', '.join(results.missing)}"
    left = Left(
        "outputs", story.record.run_id, why, f"tpuops run --env {name}, or give up: tpuops down --env {name} --yes"
    )
    return replace(report, saved=saved, remains=(*report.remains, left))


async def end_machines(site: Site, crew: Crew, *, delete: bool, why: str = "the file says keep") -> Torn:
    """Delete node and VM, or name them as kept, and `why`."""
    if delete:
        crew.forget()
        torn = await remove(site.desired, crew, "the run is over")
        site.journal.record("teardown.done", removed=list(torn.removed), remains=[left.name for left in torn.remains])
        return torn
    observed, problem = await seen(site.desired, crew)
    if observed is None:
        return Torn((), unknown(site.desired, problem), ())
    return Torn((), kept_bucket(observed) + standing(site.desired, observed, why), ())
