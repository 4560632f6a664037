"""The same seeds in virtual time and over the wire end equally: exit code, recoveries, what is kept and what is left.

Over the wire everything is real but the sky: the embedded cloud's process, its machines, SSH, the product's clients.
Seeds whose faults depend on how often somebody polls, or on seconds, are left to virtual time. CI plays the pinned ones
and a part of two hundred that moves on each day; TPUOPS_WIRED=all plays the two hundred.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.simulation.drafts import Schedule
from tests.simulation.lives import Doom
from tests.simulation.play import played
from tests.simulation.schedules import draw
from tests.simulation.wired import lived, outcome, with_dooms

pytestmark = pytest.mark.wire

UNDISTURBED = (4, 8, 21, 45, 100, 134, 173, 187)
ALL, DAILY = 200, 4
KILLED = {
    51: "tpu.nodes.create",
    98: "tpu.nodes.getGuestAttributes",
    184: "compute.projects.get",
    100: "tpu.nodes.stop",
    187: "tpu.nodes.delete",
    8: "tpu.nodes.create",
    181: "tpu.operations.get",
}
"""Seeds with a controller that is killed at its first call of a method, and another one after it."""


def virtual(schedule: Schedule) -> dict[str, object]:
    history = played(schedule)
    stands = ["node"] * len(history.nodes) + ["vm"] * len(history.vms)
    return outcome(history.last.exit_code, history.last.document, stands)


def wired() -> Iterator[int]:
    """Seeds that may be played over the wire, in their order."""
    for seed in itertools.count():
        schedule = draw(seed)
        if schedule.wired and not schedule.dooms:
            yield seed


def today() -> list[int]:
    """The pinned seeds and today's, or all two hundred."""
    every = list(itertools.islice(wired(), ALL))
    if os.environ.get("TPUOPS_WIRED") == "all":
        return every
    first = datetime.now(UTC).date().toordinal() * DAILY % ALL
    return sorted({*UNDISTURBED, *every[first : first + DAILY]})


@pytest.mark.parametrize("seed", today())
def test_an_undisturbed_controller_ends_equally_on_both_sides(seed: int, tmp_path: Path) -> None:
    schedule = draw(seed)
    assert schedule.wired
    assert not schedule.dooms
    assert lived(schedule, tmp_path) == virtual(schedule)


@pytest.mark.parametrize("seed", KILLED)
def test_a_killed_controller_s_successor_ends_equally_on_both_sides(seed: int, tmp_path: Path) -> None:
    doom = Doom(call=1, phase="commit", same_host=True, after_s=0.1, method=KILLED[seed])
    schedule = with_dooms(draw(seed), doom)
    assert lived(schedule, tmp_path) == virtual(schedule)
