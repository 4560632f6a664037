"""What a reply does not tell: one that comes too late, a look that is old, a name that means something else by now."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.cast import Cast, Entrance, Made
from tests.simulation.history import Ended, History
from tests.simulation.lives import Life
from tests.simulation.loop import true_soon
from tests.simulation.play import INSTANCES, PARENT, _instance, _json, staged
from tests.simulation.properties import p3_down_takes_the_rest_away, p4_what_is_not_ours_is_untouched, standing
from tests.simulation.sweep import Scene, lived
from tests.simulation.troubles import CHANGES, NODE, VM
from tests.simulation.worker import Program
from tpuops.localcloud.core.wire import Reply, Request

TOO_LATE_S = 45.0
OLDEST_S = 60.0
STILL_S = 20.0
SLOW = Program(steps=60, step_s=0.5)
FOREIGN = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base", "labels": {"team": "other"}}


def wrong(history: History) -> list[str]:
    """What no ambiguity excuses."""
    found = [*history.problems, *p3_down_takes_the_rest_away(history), *p4_what_is_not_ours_is_untouched(history)]
    return found + [f"there stand {sorted(standing(history))}"] * bool(standing(history))


def played(cast: type[Cast], faults: tuple[dict[str, Any], ...] = (), seed: int = 1) -> tuple[History, list[Made]]:
    """One run on a stage of this kind."""
    schedule = replace(Scene("ambiguity", "run", faults=faults).schedule(), seed=seed, program=SLOW)
    stages: list[Cast] = []

    def make() -> Cast:
        stages.append(cast(schedule, (Entrance(0, "run", "desk"),)))
        return stages[-1]

    return staged(make, seed), stages[0].done


@pytest.mark.parametrize(
    ("method", "times"), [*((method, 1) for method in CHANGES), *((method, 2) for method in CHANGES[:4])]
)
def test_a_reply_that_comes_after_the_client_gave_up_leaves_exactly_one(method: str, times: int) -> None:
    """A bucket's second creation is bounded by the minute that calls are repeated for: that is an end of its own."""
    fault = {"on": {"method": method}, "do": {"delay_s": TOO_LATE_S}}
    history, done = played(Cast, (fault,) * times)
    assert wrong(history) == []
    assert [end.exit_code for end in history.ends] == [0]
    assert len(history.started) == 1
    assert len([made for made in done if made.method == method]) == 1


class OldLooks(Cast):
    """A look at node or VM is now and then answered as it was up to a minute ago."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._told: dict[str, list[tuple[float, Reply]]] = {}
        self._rng = random.Random(f"old/{self.schedule.seed}")
        self.old = 0
        deliver = self.net.deliver

        def delivered(request: Request) -> Reply:
            if request.verb != "GET" or not request.path.endswith((f"/{NODE}", f"/{VM}")):
                return deliver(request)
            past = self._told.setdefault(request.path, [])
            fresh = [reply for at, reply in past if at > self.net.now() - OLDEST_S]
            if fresh and self._rng.random() < 0.3:
                self.old += 1
                return self._rng.choice(fresh)
            reply = deliver(request)
            past.append((self.net.now(), reply))
            return reply

        self.net.deliver = delivered  # type: ignore[method-assign]


@pytest.mark.parametrize("seeds", [range(20)], ids=["0..19"])
def test_an_old_look_makes_nothing_twice_and_ends_no_healthy_training(seeds: range) -> None:
    broken = {}
    for seed in seeds:
        history, done = played(OldLooks, seed=seed)
        made = [each.method for each in done if each.method in {"tpu.nodes.create", "compute.instances.insert"}]
        found = list(history.problems) + [f"made {made}"] * (len(made) > 2)
        found += [f"{len(history.started)} trainings"] * (len(history.started) != 1)
        found += [f"exit {end.exit_code} {end.error}" for end in history.ends if end.exit_code not in {0, 6}]
        if found:
            broken[seed] = found
    assert broken == {}


class LostNode(Cast):
    """In the middle of the training our node is deleted, while its controller stands still and sees nothing of it."""

    async def _controllers(self) -> None:
        losing = asyncio.ensure_future(self._lose())
        await super()._controllers()
        await losing

    def _spawn(self, life: Life) -> asyncio.Task[Ended]:
        self.life = life
        return super()._spawn(life)

    async def _lose(self) -> None:
        await asyncio.sleep(15.0)
        self.life.stand_still(STILL_S)
        world = self.net.core.world
        key, shown = next((key, doc) for key, doc in world.items("tpu.node") if key.endswith(f"/{NODE}"))
        kept = {name: shown["shown"][name] for name in ("acceleratorType", "runtimeVersion", "labels", "metadata")}
        self.net.before = lambda request: None  # this hand is not the product's
        self.net.deliver(Request("DELETE", f"{PARENT}/{NODE}"))
        assert await true_soon(lambda: world.get("tpu.node", key) is None)
        self._then(kept)
        self.net.before = self._before

    def _then(self, kept: dict[str, Any]) -> None:
        """Nothing."""


class ReplacedNode(LostNode):
    """And made again, with our labels."""

    def _then(self, kept: dict[str, Any]) -> None:
        self.net.deliver(_json("POST", PARENT, kept, {"nodeId": NODE}))


def went_on(history: History) -> list[str]:
    """What is not as it has to be where the run goes on, at once, on another machine."""
    first, second = history.started
    found = [*wrong(history), *(f"exit {end.exit_code}" for end in history.ends if end.exit_code)]
    found += ["it is the same machine"] * (first.machine == second.machine)
    found += ["it is not the next attempt"] * ((first.run_id, 2) != (second.run_id, second.attempt))
    found += [f"it took {second.at - first.at:.0f} s"] * (second.at - first.at > STILL_S + 30.0)
    return found


def test_a_node_that_went_unseen_is_made_anew_and_its_run_goes_on() -> None:
    history, done = played(LostNode)
    assert went_on(history) == []
    assert len([made for made in done if made.method == "tpu.nodes.create"]) == 2


def test_a_node_that_was_replaced_under_its_name_is_known_by_its_id() -> None:
    history, done = played(ReplacedNode)
    assert went_on(history) == []
    assert len([made for made in done if made.method == "tpu.nodes.create"]) == 1


class ForeignNames(Cast):
    """Node and VM of our names stand there, and are somebody else's."""

    async def _plant(self) -> None:
        self.net.deliver(_json("POST", PARENT, FOREIGN, {"nodeId": NODE}))
        self.net.deliver(_json("POST", INSTANCES, _instance(VM, {"team": "other"})))
        await super()._plant()
        self.history.decoys[VM] = self._vm_shown()

    def _vm_shown(self) -> Any:
        return {**(self._vm() or {})}


def test_foreign_things_of_our_names_are_left_alone_and_named() -> None:
    history, done = played(ForeignNames)
    assert [end.exit_code for end in history.ends] == [5]
    assert NODE in history.ends[0].error
    assert done == []
    assert wrong(history) == []


def test_a_machine_lost_before_it_was_entered_continues_no_run_that_is_over() -> None:
    taken = {"on": {"method": "tpu.nodes.getGuestAttributes", "nth": 2}, "do": {"preempt": True}}
    scene = Scene("again", "run", ("run",), (taken,))
    swept = lived(scene)
    runs = [(start.run_id, start.attempt) for start in swept.history.started]
    assert len({run for run, _ in runs}) == 2, runs
    assert [attempt for _, attempt in runs] == [1, 2]
    assert [end.exit_code for end in swept.history.ends] == [0, 0]
    assert wrong(swept.history) == []
