"""Killed at any point and given again, a command comes to the same end: one of each, none left, training untouched.

Every point of every scene is swept, each with a successor on the same host and on another. How many there are is
printed. `-k 'run made anew'` sweeps one scene.
"""

from __future__ import annotations

from functools import cache, partial

import pytest

from tests.simulation import sweep
from tests.simulation.lives import ANY, Doom
from tests.simulation.many import shared_out
from tests.simulation.sweep import HOSTS, SCENES, Scene, Swept, dooms, lived, wrong
from tpuops.lifecycle import ends
from tpuops.stages import run as runs


@cache
def undisturbed(name: str) -> Swept:
    """The scene's life that nobody kills."""
    return lived(named(name))


def named(name: str) -> Scene:
    return next(scene for scene in SCENES if scene.name == name)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_command_killed_anywhere_and_given_again_comes_to_the_same_end(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = undisturbed(name)
    assert not wrong(named(name), whole, whole), "the undisturbed life itself is wrong"
    every = list(dooms(len(whole.points)))
    broken = [line for lines in shared_out(partial(broken_in, name), every) for line in lines]
    with capsys.disabled():
        print(f"\n{name}: {len(every)} kills, {len(broken)} wrong", end=" ")
    assert not broken, "\n".join(broken)


def broken_in(name: str, doom: Doom) -> list[str]:
    """`broken_at` of a scene by its name, beside the life that is known here."""
    return broken_at(named(name), undisturbed(name), doom)


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
    points = {point for scene in SCENES for point in undisturbed(scene.name).points}
    methods = {point.partition(" ")[2] for point in points}
    changes = {"tpu.nodes.create", "tpu.nodes.delete", "tpu.nodes.stop", "tpu.nodes.start"}
    changes |= {"compute.instances.insert", "compute.instances.delete", "storage.buckets.insert"}
    assert changes | {"storage.objects.insert", "storage.objects.delete", ""} <= methods
    assert {"commit", "reply"} <= points


def noticed(scene: Scene, phase: str, method: str) -> list[str]:
    """What the sweep finds at the points of one phase of one method, in the product as it is at this moment."""
    whole = lived(scene)
    calls = [number for number, point in enumerate(whole.points, 1) if point == f"{phase} {method}".rstrip()]
    return [line for call in calls for line in broken_at(scene, whole, Doom(call, ANY, True, sweep.LATER_S))]


def test_an_answer_that_was_only_planned_and_counts_as_tried_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "_take_back", lambda story: None)
    assert noticed(named("run with stop and start"), "send", "tpu.nodes.stop")


def test_a_successor_that_begins_a_run_of_its_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    way = runs.Way(runs.Entry.BEGIN, "never mind what is there")
    monkeypatch.setattr(runs, "enter", lambda *_: way)
    assert noticed(named("run"), "send", "storage.objects.list")
