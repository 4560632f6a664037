"""Many seeded lives, shared out to one process a core: `python -m tests.simulation.many 0..9999`.

Prints each broken promise with the command that replays it, then how many lives it played and how fast.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tests.simulation.play import played
from tests.simulation.properties import violations
from tests.simulation.schedules import draw

BLOCK = 40
ALL = range(10_000)
AGAIN = "python -m tests.simulation.many {0}..{1}"
Part, Result = TypeVar("Part"), TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a block of seeds: what was broken, in lines, and the CPU seconds it took."""

    lives: int
    broken: tuple[str, ...]
    cpu_s: float


class _Heard(logging.Handler):
    """What asyncio has to say, which is always of something that nobody waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it on one line."""
        self.said.append(" ".join(self.format(record).split()))


def block(seeds: range) -> Played:
    """Play them one after another. A life that ends in no order at all is broken too, or leaves a failed task alone."""
    began, broken, heard = time.process_time(), [], _Heard()
    logging.getLogger("asyncio").addHandler(heard)
    for seed in seeds:
        try:
            found = violations(played(draw(seed)))
        except (AssertionError, TimeoutError) as error:
            found = [repr(error)]
        if found:
            broken += [f"seed {seed}: {'; '.join(found)}", f"    {AGAIN.format(seed, seed)}"]
    gc.collect()  # asyncio tells of a task when the task goes
    logging.getLogger("asyncio").removeHandler(heard)
    if heard.said:
        first, last = seeds[0], seeds[-1]
        broken += [f"seeds {first} to {last}: {'; '.join(heard.said)}", f"    {AGAIN.format(first, last)}"]
    return Played(len(seeds), tuple(broken), time.process_time() - began)


def blocks(seeds: range) -> list[range]:
    """The seeds in blocks that one process plays at a time."""
    return [range(start, min(start + BLOCK, seeds.stop)) for start in range(seeds.start, seeds.stop, BLOCK)]


def shared_out(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """What `work` makes of each part, on every core, in whatever order they end; what is known here is known there.

    What was imported is garbage to nobody: `gc.freeze`.
    """
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), initializer=gc.freeze) as pool:
        yield from pool.imap_unordered(work, parts)


def many(seeds: range) -> Iterator[Played]:
    """All of them."""
    return shared_out(block, blocks(seeds))


def asked(words: str) -> range:
    """`4000..4999`, or one seed."""
    first, _, last = words.partition("..")
    return range(int(first), int(last or first) + 1)


def said(done: list[Played], wall_s: float) -> str:
    """How many lives, how fast."""
    lives, cpu_s = sum(each.lives for each in done), sum(each.cpu_s for each in done)
    broken = sum(len(each.broken) for each in done) // 2
    rate = f"{lives / cpu_s:.0f} a second of CPU, {lives / wall_s:.0f} a second of wall time" if cpu_s else "none"
    return f"{lives} lives in {wall_s:.0f} s on {os.cpu_count()} cores ({rate}), {broken} broken"


def main(words: list[str]) -> int:
    """1 where any promise was broken."""
    began, done = time.monotonic(), []
    for each in many(asked(words[0]) if words else ALL):
        done.append(each)
        print("\n".join(each.broken), end="\n" if each.broken else "", flush=True)
    print(said(done, time.monotonic() - began))
    return 1 if any(each.broken for each in done) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
