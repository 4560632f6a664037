"""`limits.runtime` counts what has passed: no clock that is wrong or jumps ends a run early, no suspension late.

What earlier controllers counted comes from the record, and from there to here the server's clock counts (R11).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.cast import Cast, Entrance
from tests.simulation.history import Ended, History
from tests.simulation.lives import Doom, Life
from tests.simulation.loop import sleep
from tests.simulation.play import staged
from tests.simulation.properties import standing
from tests.simulation.sweep import Scene
from tests.simulation.worker import Program
from tpuops.lifecycle.supervise import LIMIT_LOOKS_S

HOUR_S = 3600.0
STEP_S = 5.0
LATER_S = 300.0
"""When the second controller comes; the first has died in the training by then."""
ENDING_S = 10.0
"""To stop the training, save, and take all down."""


class Clocks(Cast):
    """Controllers whose hosts' wall clocks are `skews_s` ahead; every host is suspended once, if at all."""

    def __init__(self, train_s: float, limit: str, dooms: list[Doom | None], **clocks: Any) -> None:
        schedule = Scene("limit", "run").schedule()
        schedule.environment["limits"] = {"runtime": limit}
        program = Program(steps=round(train_s / STEP_S), every=3, step_s=STEP_S)
        entrances = [Entrance(number * LATER_S, "run", f"host{number}", doom) for number, doom in enumerate(dooms)]
        super().__init__(replace(schedule, program=program), entrances)
        self._skews_s: list[float] = clocks.get("skews_s", [0.0] * len(dooms))
        self._jump_s: float = clocks.get("jump_s", 0.0)
        self._suspended: tuple[float, float] = clocks.get("suspended", (0.0, 0.0))
        self.took_s = 0.0

    def _spawn(self, life: Life) -> asyncio.Task[Ended]:
        life.skew_s = self._skews_s[life.pid - 1]
        asyncio.ensure_future(self._strike(life))  # noqa: RUF006 (it ends by itself)
        return super()._spawn(life)

    async def _strike(self, life: Life) -> None:
        after_s, for_s = self._suspended
        await sleep(after_s or 20.0)
        life.suspended_s += for_s
        life.skew_s += self._jump_s

    async def _controllers(self) -> None:
        began = asyncio.get_running_loop().time()
        await super()._controllers()
        self.took_s = asyncio.get_running_loop().time() - began


def lived(train_s: float, limit: str, dooms: list[Doom | None], **clocks: Any) -> tuple[History, float]:
    stages: list[Clocks] = []

    def make() -> Clocks:
        stages.append(Clocks(train_s, limit, dooms, **clocks))
        return stages[-1]

    history = staged(make, 1)
    assert history.problems == [] or all("living training" in each for each in history.problems)
    assert standing(history) == set()
    return history, stages[0].took_s


DIES = Doom(50, "reply", same_host=False)


@pytest.mark.parametrize("hour_s", [HOUR_S, -HOUR_S, 3 * HOUR_S, -3 * HOUR_S], ids=["+1h", "-1h", "+3h", "-3h"])
@pytest.mark.parametrize("what", ["skewed", "jumps", "of the first", "of the second"])
def test_no_wall_clock_ends_a_run_whose_time_is_not_over(what: str, hour_s: float) -> None:
    two = what.startswith("of")
    skews_s = {"skewed": [hour_s], "jumps": [0.0], "of the first": [hour_s, 0.0], "of the second": [0.0, hour_s]}[what]
    clocks = {"skews_s": skews_s, "jump_s": hour_s if what == "jumps" else 0.0}
    history, _ = lived(900.0, "1h", [DIES, None] if two else [None], **clocks)
    assert [end.exit_code for end in history.ends] == [0]
    assert len(history.started) == 1


@pytest.mark.parametrize("hour_s", [HOUR_S, 0.0, -HOUR_S], ids=["+1h", "right", "-1h"])
def test_a_successor_counts_from_the_run_s_beginning_whatever_the_clocks_say(hour_s: float) -> None:
    history, took_s = lived(2 * HOUR_S, "10m", [DIES, None], skews_s=[hour_s, 0.0])
    assert [end.exit_code for end in history.ends] == [8]
    assert 600.0 <= took_s <= 600.0 + ENDING_S


def test_a_limit_that_passes_while_the_machine_is_suspended_ends_the_run_soon_after() -> None:
    history, took_s = lived(2 * HOUR_S, "30m", [None], suspended=(60.0, HOUR_S))
    assert [end.exit_code for end in history.ends] == [8]
    assert took_s <= 60.0 + LIMIT_LOOKS_S[1] + ENDING_S


def test_a_suspension_that_leaves_time_ends_nothing() -> None:
    history, took_s = lived(2 * HOUR_S, "90m", [None], suspended=(60.0, HOUR_S))
    assert [end.exit_code for end in history.ends] == [8]
    assert 1800.0 <= took_s <= 1800.0 + ENDING_S
