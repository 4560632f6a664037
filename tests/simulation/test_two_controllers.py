"""Two controllers at once, in seeded interleavings: one of each, one training, and whoever loses changes nothing.

`TPUOPS_PAIRS=0..999` plays others; a failing seed is printed and replays.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.cast import Acted, Entrance, acted, machine_changes
from tests.simulation.drafts import Schedule
from tests.simulation.lives import PHASES, Doom
from tests.simulation.properties import p3_down_takes_the_rest_away, p4_what_is_not_ours_is_untouched, standing
from tests.simulation.sweep import Scene
from tests.simulation.worker import Program

DEFAULT = "0..59"
AGAIN = "TPUOPS_PAIRS={0}..{0} python -m pytest tests/simulation/test_two_controllers.py"
DONE, GAVE_UP, BUSY, STOPPED = 0, 5, 7, 143
QUICK, SLOW = Program(steps=20, step_s=0.2), Program(steps=60, step_s=1.5, every=5)
BOTH = ["tpuops-sim-ada", "tpuops-sim-ada-vm"]
Pair = Callable[[random.Random], tuple[Entrance, ...]]


def up_up(rng: random.Random) -> tuple[Entrance, ...]:
    """Two people provision at once."""
    return Entrance(0, "up", "desk"), Entrance(rng.uniform(0, 4), "up", _host(rng))


def up_down(rng: random.Random) -> tuple[Entrance, ...]:
    """One provisions (perhaps over what stands) while another removes."""
    first = (Entrance(0, "up", "desk"),) if rng.random() < 0.5 else ()
    begin = 15.0 if first else 0.0
    return *first, Entrance(begin + rng.uniform(0, 4), "up", "desk"), Entrance(begin + 4, "down", _host(rng))


def run_run(rng: random.Random) -> tuple[Entrance, ...]:
    """Two people run the same."""
    return Entrance(0, "run", "desk"), Entrance(rng.uniform(0, 16), "run", _host(rng))


def run_down(rng: random.Random) -> tuple[Entrance, ...]:
    """One removes what another runs on."""
    return Entrance(0, "run", "desk"), Entrance(rng.uniform(0, 16), "down", _host(rng))


def stale(rng: random.Random) -> tuple[Entrance, ...]:
    """One stands still until another has taken its lease, and goes on."""
    doom = Doom(rng.randrange(8, 90), rng.choice(PHASES[1:]), False, pause_s=rng.uniform(62, 180))
    return Entrance(0, "run", "desk", doom), Entrance(rng.uniform(1, 30), "run", "elsewhere")


PAIRS: tuple[Pair, ...] = (up_up, up_down, run_run, run_down, stale)


def _host(rng: random.Random) -> str:
    return rng.choice(("desk", "elsewhere"))


def play(pair: Pair, seed: int) -> Acted:
    """One interleaving."""
    rng = random.Random(f"{pair.__name__}/{seed}")
    program = SLOW if pair is stale else QUICK
    schedule: Schedule = replace(Scene(pair.__name__, "run").schedule(), seed=seed, program=program)
    return acted(schedule, pair(rng))


def wrong(pair: Pair, seen: Acted) -> list[str]:
    """What is not as it has to be."""
    found = list(seen.history.problems)
    found += p3_down_takes_the_rest_away(seen.history)
    found += p4_what_is_not_ours_is_untouched(seen.history)
    for number, entrance in enumerate(seen.entrances, 1):
        found += _losers(seen, number)
        code = seen.end(number).exit_code
        if code not in _permitted(pair, entrance):
            found.append(f"{entrance.command} ended with {code}: {seen.end(number).error}")
    if all(seen.end(number).exit_code == BUSY for number in range(1, len(seen.entrances) + 1)):
        found.append("both lost")
    return found + _ends(pair, seen) + (_after_it_was_taken(seen) if pair is stale else [])


def _permitted(pair: Pair, entrance: Entrance) -> set[int]:
    codes = {DONE, BUSY}
    if entrance.doom is not None:
        codes |= {GAVE_UP}  # its time for retries was spent standing still
    if pair is run_down and entrance.command == "run":
        codes |= {STOPPED}
    return codes


def _losers(seen: Acted, number: int) -> list[str]:
    """Who is turned away names who holds it, and has changed nothing but the bucket that the lock itself lives in."""
    end = seen.end(number)
    if end.exit_code != BUSY or seen.took(number):
        return []
    made = [each for each in seen.by(number) if each.method != "storage.buckets.insert"]
    found = [f"the loser changed {each.method} {each.resource}" for each in made]
    hosts = {entrance.host for entrance in seen.entrances}
    return found + ([] if any(f" on {host} " in end.error for host in hosts) else [f"names nobody: {end.error}"])


def _ends(pair: Pair, seen: Acted) -> list[str]:
    stands = sorted(standing(seen.history))
    if pair is up_up:
        made = sorted(each.method for each in machine_changes(seen.done))
        wanted = ["compute.instances.insert", "tpu.nodes.create"]
        return [f"{made} for two ups"] * (made != wanted) + [f"there stand {stands}"] * (stands != BOTH)
    if pair is up_down:
        return [f"there stand {stands}"] * (stands not in ([], BOTH))
    return [f"there stand {stands}"] * bool(stands)


def _after_it_was_taken(seen: Acted) -> list[str]:
    """Who does not hold the lease changes no machine and no record; its own run's journal may still hear of it."""
    found, holder = [], 0
    for made in seen.done:
        if made.resource.endswith("/lease.json"):
            holder = made.by if made.method.endswith("insert") else 0
        elif made.resource.endswith("/run.json") or made.method.startswith(("tpu.", "compute.")):
            found += [f"{made.by} changed {made.method} {made.resource}, {holder} had the lease"] * (made.by != holder)
    return found


def seeds() -> range:
    first, _, last = os.environ.get("TPUOPS_PAIRS", DEFAULT).partition("..")
    return range(int(first), int(last or first) + 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)
def test_of_two_controllers_one_acts_and_the_other_changes_nothing(pair: Pair) -> None:
    broken = []
    for seed in seeds():
        found = broken_in(pair, seed)
        if found:
            broken += [f"{pair.__name__}, seed {seed}: {'; '.join(found)}", f"    {AGAIN.format(seed)}"]
    assert not broken, "\n".join(broken)


def broken_in(pair: Pair, seed: int) -> list[str]:
    """What is wrong in one interleaving; one that ends in no order at all is wrong too."""
    try:
        return wrong(pair, play(pair, seed))
    except (AssertionError, TimeoutError) as error:
        return [repr(error)]
