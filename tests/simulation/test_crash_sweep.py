"""Killed at any point and given again, a command comes to the same end: one of each, none left, training untouched.

`TPUOPS_SWEEP=all` sweeps every point, `TPUOPS_SWEEP=3/12` the fourth of twelve parts; without it each day has its part,
so that twelve days of CI see all of it. How many points there are, and how many were tried, is printed.
"""

from __future__ import annotations

import datetime
import os

import pytest

from tests.simulation import sweep
from tests.simulation.lives import ANY, Doom
from tests.simulation.sweep import HOSTS, SCENES, Scene, Swept, dooms, lived, wrong
from tpuops.lifecycle import supervise
from tpuops.stages import run as runs

PARTS = 12
AGAIN = "TPUOPS_SWEEP={part}/{of} python -m pytest tests/simulation/test_crash_sweep.py -k '{name}'"


def part() -> tuple[int, int]:
    """Which part of how many is swept."""
    asked = os.environ.get("TPUOPS_SWEEP", "")
    if asked == "all":
        return 0, 1
    if asked:
        which, _, of = asked.partition("/")
        return int(which), int(of)
    return datetime.datetime.now(datetime.UTC).date().toordinal() % PARTS, PARTS


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_command_killed_anywhere_and_given_again_comes_to_the_same_end(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = lived(scene)
    assert not wrong(scene, whole, whole), "the undisturbed life itself is wrong"
    which, of = part()
    every = list(dooms(len(whole.points)))
    tried = every[which::of]
    broken = [line for doom in tried for line in broken_at(scene, whole, doom)]
    with capsys.disabled():
        print(f"\n{scene.name}: {len(tried)} of {len(every)} kills tried, {len(broken)} wrong", end=" ")
    again = AGAIN.format(part=which, of=of, name=scene.name)
    assert not broken, "\n".join([*broken, again])


def broken_at(scene: Scene, whole: Swept, doom: Doom) -> list[str]:
    """What is wrong after a kill, in one line; a life that ends in no order at all is wrong too."""
    try:
        swept = lived(scene, doom)
        found = wrong(scene, whole, swept) + ([] if swept.killed else ["it was never killed"])
    except (AssertionError, TimeoutError) as error:
        found = [repr(error)]
    where = f"{scene.name}: killed at point {doom.call} ({whole.points[doom.call - 1]})"
    return [f"{where}, again on {HOSTS[doom.same_host]}: {'; '.join(found)}"] if found else []


def test_every_phase_of_every_kind_of_call_is_a_point() -> None:
    points = {point for scene in SCENES for point in lived(scene).points}
    methods = {point.partition(" ")[2] for point in points}
    changes = {"tpu.nodes.create", "tpu.nodes.delete", "tpu.nodes.stop", "tpu.nodes.start"}
    changes |= {"compute.instances.insert", "compute.instances.delete", "storage.buckets.insert"}
    assert changes | {"storage.objects.insert", "storage.objects.delete", ""} <= methods
    assert {"commit", "reply"} <= points


def noticed(scene: Scene, phase: str, method: str) -> list[str]:
    """What the sweep finds at the points of one phase of one method."""
    whole = lived(scene)
    calls = [number for number, point in enumerate(whole.points, 1) if point == f"{phase} {method}".rstrip()]
    return [line for call in calls for line in broken_at(scene, whole, Doom(call, ANY, True, sweep.LATER_S))]


def named(name: str) -> Scene:
    return next(scene for scene in SCENES if scene.name == name)


def test_an_answer_that_was_only_planned_and_counts_as_tried_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_take_back", lambda story: None)
    assert noticed(named("run with stop and start"), "send", "tpu.nodes.stop")


def test_a_successor_that_begins_a_run_of_its_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    way = runs.Way(runs.Entry.BEGIN, "never mind what is there")
    monkeypatch.setattr(runs, "enter", lambda *_: way)
    assert noticed(named("run"), "send", "storage.objects.list")
