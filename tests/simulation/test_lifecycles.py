"""A few hundred whole lives in virtual time, each with the faults of its own seed; a failing seed is printed.

`TPUOPS_SEEDS=4000..4999` plays others. One life is replayed by the command that its failure prints.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.play import played
from tests.simulation.properties import violations
from tests.simulation.schedules import draw

BLOCK = 40
DEFAULT = "0..319"
AGAIN = "TPUOPS_SEEDS={0}..{0} python -m pytest tests/simulation/test_lifecycles.py"


def blocks() -> list[range]:
    first, _, last = os.environ.get("TPUOPS_SEEDS", DEFAULT).partition("..")
    seeds = range(int(first), int(last or first) + 1)
    return [range(start, min(start + BLOCK, seeds.stop)) for start in range(seeds.start, seeds.stop, BLOCK)]


@pytest.mark.parametrize("seeds", blocks(), ids=lambda seeds: f"{seeds.start}..{seeds.stop - 1}")
def test_every_life_ends_as_its_script_permits_and_breaks_no_promise(seeds: range) -> None:
    broken = []
    for seed in seeds:
        found = violations(played(draw(seed)))
        if found:
            broken += [f"seed {seed}: {'; '.join(found)}", f"    {AGAIN.format(seed)}"]
    assert not broken, "\n".join(broken)


def test_the_same_seed_lives_the_same_life() -> None:
    seed = next(seed for seed in range(1000) if draw(seed).dooms and draw(seed).outsider)
    first, second = played(draw(seed)), played(draw(seed))
    assert [(who, event.kind, event.at) for who, event in first.events] == [
        (who, event.kind, event.at) for who, event in second.events
    ]
    assert first.requests == second.requests


def test_the_seeds_bring_every_kind_of_trouble() -> None:
    met = {kind.rstrip("0123456789") for seed in range(320) for kind in draw(seed).kinds}
    wanted = {"bug", "setup", "loop", "sick", "quota", "forbidden", "stockout", "limit", "kill", "device_fault"}
    wanted |= {"ssh_drop", "preempt", "late", "record", "taken", "vm-taken", "stranger", "dooms"}
    assert wanted <= met
