"""What one supervision knows of its run: the site, the record in the bucket, the machine, and the account so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tpuops.diagnosis.signatures import Texts
from tpuops.diagnosis.verdict import Budgets, Shape
from tpuops.facts import catalogue
from tpuops.lifecycle.site import Site
from tpuops.remote.sync import Revision
from tpuops.resources import Node
from tpuops.stages import run as runs
from tpuops.stages import signatures
from tpuops.stages.apply import Crew
from tpuops.stages.record import CLOSED, RUNNING, Records, RunRecord
from tpuops.stages.recover import budgets_of
from tpuops.stages.watch import Eyes, Progress, stall_limits


@dataclass(frozen=True, slots=True)
class Source:
    """The source tree to run, its content digest, and what git says of it."""

    path: Path
    digest: str
    revision: Revision = field(default_factory=Revision)


@dataclass(slots=True)
class Story:
    """One run under supervision. `rows` is the report's table of recoveries, `preflight` that of the last start.

    Times are monotonic seconds. `since` is when the run began, by `Clock.elapsed`, whoever began it.
    """

    site: Site
    crew: Crew
    source: Source
    records: Records
    record: RunRecord
    began_at: float
    node: Node | None = None
    useful_s: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list)
    preflight: list[dict[str, Any]] = field(default_factory=list)
    signatures: Texts = ()
    since: float = 0.0

    @property
    def machine(self) -> Node:
        """The node of the current attempt."""
        assert self.node is not None
        return self.node

    @property
    def is_own(self) -> bool:
        """Whether the run on record is of this command's source and program."""
        ours = (self.source.digest, runs.program_of(self.site.environment))
        return (self.record.source, self.record.program) == ours

    @property
    def shape(self) -> Shape:
        """What the run stands on, by the live node; by the file where there is none."""
        if self.node is None:
            known = catalogue.accelerator(self.site.environment.tpu.accelerator)
            return Shape(known.workers if known else 1, self.site.environment.tpu.spot)
        return Shape(max(1, len(self.machine.workers)), self.machine.spot, bool(self.machine.queued_resource))

    @property
    def budgets(self) -> Budgets:
        """The file's limits on recoveries, and its word for single classes."""
        return budgets_of(self.site.environment)

    @property
    def eyes(self) -> Eyes:
        """What watching needs."""
        site = self.site
        return Eyes(
            site.cloud,
            site.connector,
            site.route,
            site.clock,
            site.journal,
            site.show,
            self.signatures,
            stall_limits(site.environment),
            self.crew.fence,
        )

    def objects(self, kind: str) -> str:
        """The prefix of one kind of this run's objects in the home bucket."""
        return f"{runs.prefix(self.record.run_id)}{kind}/"

    def progress(self) -> Progress:
        """A fresh account of one attempt's progress."""
        return Progress(self.site.environment.train.progress or "", best_step=self.record.best_step)

    async def note(self, **changed: Any) -> None:
        """Write the record down, with these fields `changed` once that is done.

        Raises `Busy` where the lease, or the record itself, is another controller's.
        """
        await self.crew.fence()
        self.record = replace(self.record, ran_s=round(self.ran_s, 3))
        noted = replace(self.record, **changed)
        await self.records.write(noted)
        self.record = noted

    @property
    def ran_s(self) -> float:
        """How long the run has lasted, over all its controllers and with the time that machines were suspended."""
        return self.site.clock.elapsed() - self.since

    def account(self, progress: Progress) -> None:
        """Add what one attempt did; the failure before it learns when, and from which step, training went on."""
        self.useful_s += progress.useful_s
        self.record = replace(self.record, best_step=max(self.record.best_step, progress.best_step))
        if self.rows and progress.first_step is not None and self.rows[-1]["resumed_s"] is None:
            self.rows[-1]["resumed_s"] = round(progress.first_step_at - self.began_at, 3)
            self.rows[-1]["resumed_step"] = progress.first_step

    def tell(self, progress: Progress) -> None:
        """From now on the lease says how far this attempt is."""

        def told() -> dict[str, Any]:
            wall_s = self.site.clock.monotonic() - self.began_at
            return {
                "run_id": self.record.run_id,
                "attempt": self.record.attempt,
                "step": progress.last_step,
                "best_step": max(self.record.best_step, progress.best_step),
                "recoveries": len(self.rows),
                "goodput": round((self.useful_s + progress.useful_s) / wall_s, 4) if wall_s else None,
            }

        self.crew.tell(told)

    def begin_anew(self) -> None:
        """A new run in place of the one on record."""
        self.record = replace(new_record(self.site, self.source), state=RUNNING, node_id=self.machine.id)
        self.rows, self.since = [], self.site.clock.elapsed()

    def go_on(self) -> None:
        """The same run, with the recoveries that an earlier controller noted."""
        self.rows = [dict(row) for row in self.record.recoveries]


async def open_story(site: Site, crew: Crew, source: Source) -> Story:
    """Read the record; entering goes on with the run it names or puts a new one in its place.

    An open record is written as it was: whoever held the lease before us cannot write over that any more.
    """
    records = Records(site.store, f"{site.prefix}run.json")
    found = await records.read()
    record = found if found is not None else new_record(site, source)
    crew.forget(but=record.run_id)
    own = signatures.own(site.environment)
    for conflict in signatures.conflicts(own):
        site.journal.record("signatures.conflict", what=conflict)
    story = Story(site, crew, source, records, record, site.clock.monotonic(), signatures=own)
    story.since = site.clock.elapsed() - record.ran_s - records.age_s
    if found is not None and found.state != CLOSED:
        await story.note()
    return story


def new_record(site: Site, source: Source) -> RunRecord:
    """A run nobody has started yet: its id is the time and the source."""
    now = site.clock.now()
    run_id = now.strftime("%Y%m%d-%H%M%S-") + source.digest[:6]
    program = runs.program_of(site.environment)
    return RunRecord(
        run_id,
        "",
        source.digest,
        now.isoformat(timespec="seconds"),
        by=site.user,
        program=program,
        commit=source.revision.commit,
        changed=source.revision.changed,
    )


def summary(story: Story) -> dict[str, Any]:
    """The run's own part of a report: JSON values."""
    wall_s = story.site.clock.monotonic() - story.began_at
    return {
        "run_id": story.record.run_id,
        "source": {key: getattr(story.record, key) for key in ("commit", "changed")} | {"digest": story.record.source},
        "attempts": story.record.attempt,
        "recoveries": story.rows,
        "preflight": story.preflight,
        "best_step": story.record.best_step,
        "goodput": round(story.useful_s / wall_s, 4) if wall_s and story.node is not None else None,
    }
