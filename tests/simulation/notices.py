"""Who notices that a guard is gone: a seed's life, a kill at a point, a pause at a call, a meeting, old looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.simulation import sweep
from tests.simulation.lives import ANY, Doom
from tests.simulation.play import played
from tests.simulation.properties import violations
from tests.simulation.schedules import draw
from tests.simulation.test_ambiguity import (
    test_an_old_look_makes_nothing_twice_and_ends_no_healthy_training as old_looks,
)
from tests.simulation.test_crash_sweep import broken_at, named, noticed
from tests.simulation.test_two_controllers import Pair, broken_in
from tests.simulation.worker import Program

Notice = Callable[[], list[str]]
SEEDS = 320
BROKEN = {"on": {"method": "compute.instances.insert"}, "do": {"error": {"http": 500, "message": "Internal error."}}}


def life(known: int) -> Notice:
    """This seed's life, which is known to notice; should it not do so any more, others are tried."""

    def notice() -> list[str]:
        return next((found for seed in (known, *range(SEEDS)) if (found := _lived(seed))), [])

    return notice


def _lived(seed: int) -> list[str]:
    """What is wrong in a seed's life; a life that ends in no order at all is wrong too."""
    try:
        return violations(played(draw(seed)))
    except (AssertionError, TimeoutError) as error:
        return [repr(error)]


def pause(method: str, *faults: dict[str, Any], call: int = 1) -> Notice:
    """A controller that stands still at a call of a method until another has come and gone."""
    doom = Doom(call, "commit", False, after_s=2.0, pause_s=150.0, method=method)
    schedule = replace(named("run").schedule(), dooms=(doom,), faults=faults, program=Program())
    return lambda: played(schedule).problems


def kill(scene: str, phase: str, method: str) -> Notice:
    """A scene of the crash sweep, killed at each such point."""
    return lambda: noticed(named(scene), phase, method)


def last_kill(scene: str, points: int) -> Notice:
    """A scene of the crash sweep, killed at each of its last points."""

    def notice() -> list[str]:
        whole = sweep.lived(named(scene))
        calls = range(len(whole.points) - points, len(whole.points) + 1)
        return [line for call in calls for line in broken_at(named(scene), whole, Doom(call, ANY, True, sweep.LATER_S))]

    return notice


def meeting(pair: Pair, seeds: int = 40) -> Notice:
    """Two controllers, in interleavings until one notices."""
    return lambda: next((found for seed in range(seeds) if (found := broken_in(pair, seed))), [])


def looks() -> list[str]:
    """Looks that are answered as things were a minute ago."""
    try:
        old_looks(range(60))
    except AssertionError as error:
        return [repr(error)]
    return []
