"""lock.break in virtual time: the old holder has stopped before anybody else can act, and nobody else's lease goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.acts import LONG, Act
from tests.simulation.acts import acted as acts_on
from tests.simulation.cast import Acted, Entrance, acted, machine_changes
from tests.simulation.lives import Doom
from tests.simulation.properties import standing
from tests.simulation.sweep import Scene
from tests.simulation.worker import Program
from tpuops import switch
from tpuops.lifecycle import lock
from tpuops.stages import holders

SLOW = Program(steps=60, step_s=3.0)


def played(*entrances: Entrance) -> Acted:
    return acted(replace(Scene("break", "run").schedule(), program=SLOW), entrances)


def test_a_living_holder_stops_acting_before_the_lease_is_free_and_its_training_goes_on() -> None:
    seen = played(
        Entrance(0, "run", "desk"), Entrance(20, "lock.break", "elsewhere"), Entrance(100, "run", "elsewhere")
    )
    broken = seen.end(2).document
    assert (broken["holder"]["pid"], broken["acts"], broken["broken"]) == (1, False, True)
    assert broken["waited_s"] == switch.TTL_S
    assert seen.end(1).exit_code in {6, 7}
    assert seen.end(3).exit_code == 0
    assert len(seen.history.started) == 1
    assert seen.history.problems == []
    assert standing(seen.history) == set()
    taken = next(at for at, who in seen.taken() if who == 2)
    assert [made for made in machine_changes(seen.by(1)) if made.at > taken] == []


def test_a_dead_holder_s_lease_is_free_at_once() -> None:
    dead = Entrance(0, "run", "desk", Doom(45, "reply", True))
    seen = played(dead, Entrance(20, "lock.break", "desk"), Entrance(30, "run", "elsewhere"))
    assert seen.end(2).document["waited_s"] == 0
    assert seen.end(2).document["broken"]
    assert seen.end(3).exit_code == 0
    assert len(seen.history.started) == 1


def test_with_no_lease_there_is_nothing_to_break() -> None:
    seen = played(Entrance(0, "lock.break", "desk"), Entrance(1, "up", "desk"), Entrance(20, "lock.break", "desk"))
    assert [seen.end(number).document["broken"] for number in (1, 3)] == [False, False]
    assert seen.by(1) == seen.by(3) == []


def test_a_lease_that_somebody_else_took_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = lock._read

    async def another(site: object) -> object:
        """The look was before the present holder came."""
        found = await looked(site)  # type: ignore[arg-type]
        assert found is not None
        before = replace(holders.parse(found.data), token="an earlier one", pid=9)
        return replace(found, stat=replace(found.stat, generation=1), data=before.data())

    monkeypatch.setattr(lock, "_read", another)
    seen = played(Entrance(0, "run", "desk"), Entrance(20, "lock.break", "elsewhere"))
    assert seen.end(2).exit_code == 7
    assert "nothing broken" in seen.end(2).error
    assert seen.end(1).exit_code == 0
    assert seen.by(2) == []


def test_a_kept_lease_that_is_being_broken_goes_back_to_its_machine_where_the_breaker_is_gone() -> None:
    acts = (
        Act(0, "run", "desk", detach=True),
        Act(200, "run", "bobs"),
        Act(230, "lock.break", "carls", Doom(1, "reply", same_host=True, method="storage.objects.insert", signal=True)),
    )
    _, stage = acts_on(Scene("break", "run").schedule(), *acts, program=LONG)
    assert stage.lease["doing"] == "lock.break"
    assert stage.lease["keeper"]
