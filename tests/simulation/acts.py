"""A few controllers on a stage, each with a source and a file of its own, and what breaks meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.simulation.cast import Cast, Entrance
from tests.simulation.commands import given
from tests.simulation.drafts import Schedule
from tests.simulation.history import Ended, History
from tests.simulation.lives import Life
from tests.simulation.play import SOURCE, staged
from tests.simulation.worker import Program
from tpuops.lifecycle.run import run, train
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Source
from tpuops.lifecycle.told import acknowledge

OTHER = Source(Path("/nowhere/source"), "0ther50urce")
LONG = Program(steps=400, every=10, step_s=1.0)


@dataclass(frozen=True, slots=True)
class Act(Entrance):
    """An entrance whose controller has a source and perhaps another file than those before it, and may detach."""

    source: Source = SOURCE
    detach: bool = False
    edit: Callable[[Site], Site] = lambda site: site


class Acting(Cast):
    """The acts on the stage. `breaks` maps seconds to what happens then, past all that watches the play.

    At the end `lease` and `record` are what the bucket holds, `alive` the machines on which training lives.
    """

    def __init__(self, schedule: Schedule, acts: tuple[Act, ...], breaks: dict[float, Callable[[Acting], None]]):
        super().__init__(schedule, acts)
        self.acts, self.breaks = acts, breaks
        self.net.latency = lambda: 0.002
        # As `cloud/threads.py`: a call whose caller was interrupted takes effect all the same.
        exchange = self.net.exchange
        self.net.exchange = lambda request: asyncio.shield(exchange(request))  # type: ignore[method-assign]

    async def _controllers(self) -> None:
        for after_s, happens in self.breaks.items():
            asyncio.get_running_loop().call_later(after_s, self._unwatched, happens)
        await super()._controllers()
        self.lease, self.record = self.document("lease.json"), self.document("run.json")
        self.alive = [each.spec.id for each in self.played.machines.values() if each.alive]

    def _unwatched(self, happens: Callable[[Acting], None]) -> None:
        watched, self.net.before = self.net.before, lambda request: None
        happens(self)
        self.net.before = watched

    async def _act(self, life: Life, site: Site) -> Ended:
        act = self.acts[life.pid - 1]
        site = act.edit(site)
        if act.command not in {"run", "train"}:
            return await given(act.command, life, site)
        report = await (run if act.command == "run" else train)(site, act.source, detach=act.detach)
        if not act.detach:
            await acknowledge(site, report.run.get("run_id", ""))
        return Ended(life, report.exit_code, report.document)


def acted(
    schedule: Schedule,
    *acts: Act,
    program: Program | None = None,
    breaks: dict[float, Callable[[Acting], None]] | None = None,
    stage: type[Acting] = Acting,
) -> tuple[History, Acting]:
    """Play them."""
    stages: list[Acting] = []
    schedule = replace(schedule, program=program or schedule.program)

    def made() -> Acting:
        stages.append(stage(schedule, acts, breaks or {}))
        return stages[-1]

    return staged(made, 1), stages[0]


def with_file(schedule: Schedule, **sections: Any) -> Schedule:
    """The same with other sections in its environment file."""
    return replace(schedule, environment={**schedule.environment, **sections})
