"""A stockout, or a service that is overrun, for six hours: few calls, a truthful end; capacity that returns is used.

The file has no word for how long to wait: the product's own waits are the deadline (`recover.CAPACITY_WAITS_S`), five
tries in 75 seconds and what the tries take. Who wants it for longer gives the command again, as a scheduler does.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.simulation.cast import Cast, Entrance
from tests.simulation.history import History
from tests.simulation.loop import EPOCH, sleep
from tests.simulation.play import _json, staged
from tests.simulation.properties import p3_down_takes_the_rest_away, p4_what_is_not_ours_is_untouched, standing
from tests.simulation.sweep import Scene
from tests.simulation.troubles import NODE, STOCKOUT, TRANSIENT
from tpuops.cloud import retry
from tpuops.stages.recover import CAPACITY_WAITS_S

CREATE = "tpu.nodes.create"
CEILING_S, TRIES = max(CAPACITY_WAITS_S), len(CAPACITY_WAITS_S) + 1
STORM_S, AGAIN_S = 6 * 3600.0, 600.0
MADE_S = 5.0
"""A node of the simulated cloud is made and looked at, with the slowest of latencies."""
OUT: dict[str, Any] = {"fail_operation": {"code": 8, "message": STOCKOUT}}
OVERRUN = TRANSIENT[2]


class Storm(Cast):
    """Every creation of a node meets `deed` from one moment to another; at the first the node that stands is taken."""

    def __init__(self, deed: dict[str, Any], since_s: float, until_s: float, entrances: tuple[Entrance, ...]) -> None:
        super().__init__(replace(Scene("storm", "run").schedule(), patience_s=2 * STORM_S), entrances)
        self._deed, self._since_s, self._until_s = deed, since_s, until_s
        self.asked: list[float] = []
        """When a creation was asked for, in seconds since the beginning."""

    async def _controllers(self) -> None:
        began, weather = self.net.now() - EPOCH, asyncio.ensure_future(self._weather())
        await super()._controllers()
        weather.cancel()
        rows = [row for _, row in self.net.core.world.items("request") if row["method"] == CREATE]
        self.asked = [row["at"] - EPOCH - began for row in rows if row["resource"].endswith(f"/{NODE}")]

    async def _weather(self) -> None:
        await sleep(self._since_s)
        taken = [{"on": {"after_s": 0, "machine": NODE}, "do": {"preempt": True}}] * bool(self._since_s)
        faults = [*taken, *([{"on": {"method": CREATE}, "do": self._deed}] * 1500)]
        self.net.deliver(_json("POST", "/_cloud/faults", {"faults": faults}))
        await sleep(self._until_s - self._since_s)
        for key in [key for key, fault in self.net.core.world.items("fault") if fault["fired_at"] is None]:
            self.net.core.world.drop("fault", key)


def stormed(
    deed: dict[str, Any], since_s: float, until_s: float, again: int = 1, seed: int = 1
) -> tuple[History, list[float]]:
    """The command is given, and `again` times in all; when it asked for a node."""
    entrances = tuple(Entrance(number * AGAIN_S, "run", "desk") for number in range(again))
    stages: list[Storm] = []

    def make() -> Storm:
        stages.append(Storm(deed, since_s, until_s, entrances))
        return stages[-1]

    history = staged(make, seed)
    return history, stages[0].asked


def wrong(history: History) -> list[str]:
    found = [*history.problems, *p3_down_takes_the_rest_away(history), *p4_what_is_not_ours_is_untouched(history)]
    return found + [f"there stand {sorted(standing(history))}"] * bool(standing(history))


@pytest.mark.parametrize("since_s", [0.0, 30.0], ids=["at the beginning", "after a preemption"])
def test_a_stockout_that_outlasts_the_waits_ends_with_4_and_nothing_is_left(since_s: float) -> None:
    history, asked = stormed(OUT, since_s, STORM_S)
    end = history.ends[0]
    assert wrong(history) == []
    assert (end.exit_code, end.document["remains"]) == (4, [])
    assert "no more capacity" in end.document["cause"]
    refused = [at for at in asked if at > since_s]
    assert len(refused) == TRIES
    waited = [later - at for at, later in pairwise(refused)]
    assert all(wait_s <= least <= wait_s + MADE_S for wait_s, least in zip(CAPACITY_WAITS_S, waited, strict=True))


@pytest.mark.parametrize("lasts_s", [2.0, 20.0, 40.0, 70.0])
@pytest.mark.parametrize("since_s", [0.0, 30.0], ids=["at the beginning", "after a preemption"])
def test_capacity_that_comes_back_in_time_is_used_within_one_wait(since_s: float, lasts_s: float) -> None:
    history, asked = stormed(OUT, since_s, since_s + lasts_s)
    assert wrong(history) == []
    assert [end.exit_code for end in history.ends] == [0]
    assert asked[-1] <= since_s + lasts_s + CEILING_S + MADE_S
    assert [start.attempt for start in history.started] == ([1, 2] if since_s else [1])


def test_a_command_that_is_given_again_all_through_the_storm_asks_seldom_and_trains_when_it_is_over() -> None:
    """The first that finds capacity has the run; what is given while it trains is refused, or finds it trained."""
    history, asked = stormed(OUT, 0.0, STORM_S, again=int(STORM_S / AGAIN_S) + 1)
    assert wrong(history) == []
    codes = [end.exit_code for end in history.ends]
    assert codes == [4] * (len(codes) - 1) + [0]
    assert all(end.document["remains"] == [] for end in history.ends)
    assert len(asked) == TRIES * (len(codes) - 1) + 1
    assert min(later - at for at, later in pairwise(asked)) >= min(CAPACITY_WAITS_S)
    assert asked[-1] <= STORM_S + AGAIN_S + MADE_S
    assert len(history.started) == 1


def test_a_service_that_is_overrun_is_asked_less_and_less_and_left_alone_in_the_end() -> None:
    """Each try of the waits is one call and its repetitions, both bounded. The end is not called one of capacity."""
    history, asked = stormed(OVERRUN, 0.0, STORM_S)
    assert wrong(history) == []
    assert (history.ends[0].exit_code, history.ends[0].document["remains"]) == (5, [])
    assert len(asked) <= TRIES * retry.TRIES
    assert asked[-1] <= TRIES * retry.LONGEST_S + sum(CAPACITY_WAITS_S)
