"""Several controllers on one stage, entering when a seed says so, over a wire whose latency the seed draws too.

Who asked for what is told by the core's own request log, so that a controller that lost can be shown to have changed
nothing.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.simulation.commands import given
from tests.simulation.core_cloud import AUTHOR
from tests.simulation.drafts import Schedule
from tests.simulation.history import Ended, History
from tests.simulation.lives import Doom, Life
from tests.simulation.loop import sleep
from tests.simulation.play import Stage, staged
from tpuops.lifecycle.site import Site
from tpuops.localcloud.core.wire import Request


@dataclass(frozen=True, slots=True)
class Entrance:
    """A controller: when it enters, what it is told to do, where it runs, what becomes of it."""

    after_s: float
    command: str
    host: str
    doom: Doom | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """One change that the core logged as done: when, by which controller, what."""

    at: float
    by: int
    method: str
    resource: str


class Cast(Stage):
    """The entrances on the stage; controllers are numbered from 1."""

    def __init__(self, schedule: Schedule, entrances: Sequence[Entrance]) -> None:
        super().__init__(schedule)
        self.entrances = entrances
        self.authors: dict[int, tuple[int, str]] = {}
        """By the number of a row in the request log: which controller asked, and the object it uploads."""
        self.done: list[Made] = []
        rng = random.Random(f"latency/{schedule.seed}")
        self.net.latency = lambda: rng.choice((0.001, 0.004, 0.02, 0.09, 0.3)) * (1 + rng.random())

    def _before(self, request: Request) -> None:
        super()._before(request)
        author = request.headers.get(AUTHOR)
        counter = self.net.core.world.get("cloud.requests", "all") or {"seen": 0}
        if author:
            found = re.search(rb'"name": "([^"]+)"', request.body[:300]) if "/upload/" in request.path else None
            self.authors[counter["seen"] + 1] = int(author), found[1].decode() if found else ""

    async def _controllers(self) -> None:
        entered = [self._entered(number, entrance) for number, entrance in enumerate(self.entrances, 1)]
        await asyncio.gather(*entered)
        for _, row in self.net.core.world.items("request"):
            by, uploaded = self.authors.get(row["n"], (0, ""))
            if by and row["mutating"] and row["status"] < 300:
                self.done.append(Made(row["at"], by, row["method"], uploaded or row["resource"]))

    async def _entered(self, number: int, entrance: Entrance) -> None:
        """Until it ended, or died."""
        await sleep(entrance.after_s)
        life = Life(entrance.host, number, entrance.doom)
        task, struck = self._spawn(life), asyncio.ensure_future(life.struck.wait())
        await asyncio.wait({task, struck}, return_when=asyncio.FIRST_COMPLETED)
        struck.cancel()
        if life.alive:
            await task

    async def _act(self, life: Life, site: Site) -> Ended:
        return await given(self.entrances[life.pid - 1].command, life, site)


@dataclass(slots=True)
class Acted:
    """What came of it."""

    history: History
    done: list[Made]
    entrances: Sequence[Entrance]

    def end(self, number: int) -> Ended:
        """How one controller ended."""
        return next(end for end in self.history.ends if end.life.pid == number)

    def by(self, number: int) -> list[Made]:
        """What one controller changed."""
        return [made for made in self.done if made.by == number]

    def took(self, number: int) -> bool:
        """Whether a controller ever had the lease."""
        return any(who == number for _, who in self.taken())

    def taken(self) -> list[tuple[float, int]]:
        """When the lease was taken (epoch seconds) and by which controller, in order."""
        kinds = {"lease.taken", "lease.broken"}
        rows = [(event.at, who) for who, event in self.history.events if event.kind in kinds]
        return [(datetime.fromisoformat(at).timestamp(), who) for at, who in rows]


def acted(schedule: Schedule, entrances: Sequence[Entrance]) -> Acted:
    """Play it."""
    stages: list[Cast] = []

    def make() -> Cast:
        stages.append(Cast(schedule, entrances))
        return stages[-1]

    history = staged(make, schedule.seed)
    return Acted(history, stages[0].done, entrances)


def machine_changes(done: Sequence[Made]) -> list[Made]:
    """Those that make, stop, start or end a machine."""
    return [made for made in done if made.method.startswith(("tpu.", "compute."))]
