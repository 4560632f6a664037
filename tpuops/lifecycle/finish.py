"""finish: save the outputs, close the record, tear down by the file's word, and say how it ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tpuops.diagnosis.verdict import Action
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.supervise import Ending, Story, summary
from tpuops.remote.port import Agent
from tpuops.stages import run as runs
from tpuops.stages.apply import Crew
from tpuops.stages.collect import Collected, collect
from tpuops.stages.look import look
from tpuops.stages.record import CLOSED, ENDED
from tpuops.stages.teardown import Left, Torn, kept_bucket, remove, standing

DONE, FAILED_TRAINING, GAVE_UP, STILL_BILLING, LIMIT, PERSON, CAPACITY = 0, 10, 5, 6, 8, 3, 4
SAVE_TRIES = 3
SAVE_WAIT_S = 5.0

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
    if ending.decision.budget:
        return GAVE_UP, "gave-up"
    return _EXIT_BY_ACTION.get(ending.verdict.action, FAILED_TRAINING), "failed"


async def save(story: Story, agent: Agent | None) -> Collected:
    """Collect outputs and logs, trying again while the machine answers. An absent machine has nothing to save."""
    if agent is None:
        return Collected((), (), "the machine is gone")
    site = story.site
    prefix = f"{runs.prefix(story.record.run_id)}saved/"
    for wait_s in (*(SAVE_WAIT_S,) * (SAVE_TRIES - 1), 0.0):
        done = await collect(agent, site.store, site.desired.bucket.name, prefix)
        if done.is_complete:
            break
        site.journal.record("collect.incomplete", why=done.problem, missing=list(done.missing))
        await site.clock.sleep(wait_s)
    site.journal.record("collect.done", saved=len(done.saved), missing=list(done.missing))
    return done


async def finish(story: Story, ending: Ending, *, tear_down: bool) -> Report:
    """Save, write the outcome down, then close; unsaved outputs keep the machine."""
    saved = await save(story, ending.agent)
    unsaved = _unsaved(story, saved) if ending.agent is not None else ()
    if ending.agent is not None:
        await ending.agent.close()
    report = replace(
        told(ending),
        run={**summary(story), "class": ending.verdict.failure_class},
        saved=tuple(asdict(file) for file in saved.saved),
        remains=unsaved,
    )
    return await close(story, report, tear_down=tear_down)


async def close(story: Story, report: Report, *, tear_down: bool) -> Report:
    """Write the outcome into the record, tear down by the file's word, close the record once nothing is left over."""
    story.record = replace(story.record, state=ENDED, outcome={"report": recorded(report)})
    await story.records.write(story.record)
    done = await torn_down(story.site, story.crew, report, tear_down=tear_down)
    if not done.remains:
        story.record = replace(story.record, state=CLOSED)
        await story.records.write(story.record)
    return done


async def torn_down(site: Site, crew: Crew, report: Report, *, tear_down: bool) -> Report:
    """The report after teardown: machines whose outputs are unsaved, or that the file keeps, stay and are named."""
    words = site.environment.teardown
    word = words.success if report.exit_code == DONE else words.failure
    torn = await end_machines(site, crew, delete=tear_down and word == "delete" and not report.remains)
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
    return Report(code, outcome, ending.verdict.decisive_line, ending.verdict.advice or ending.decision.reason)


def _unsaved(story: Story, saved: Collected) -> tuple[Left, ...]:
    why = f"outputs are not saved: {saved.problem or ', '.join(saved.missing)}"
    return (Left("outputs", story.record.run_id, why, "invoke train, then invoke down"),)


async def end_machines(site: Site, crew: Crew, *, delete: bool) -> Torn:
    """Delete node and VM, or name them as kept."""
    if delete:
        torn = await remove(site.desired, crew, "the run is over")
        site.journal.record("teardown.done", removed=list(torn.removed), remains=[left.name for left in torn.remains])
        return torn
    observed = await look(site.cloud, site.desired)
    return Torn((), kept_bucket(observed) + standing(site.desired, observed, "the file says keep"), ())
