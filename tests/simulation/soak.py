"""Runs that are preempted again and again for days, on a stage that forgets what a cloud keeps on disks of its own.

So what grows in this process is the product's, or a leak. What is forgotten is counted first, for P7.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.drafts import SMALL_VM, Schedule, environment
from tests.simulation.history import History
from tests.simulation.loop import sleep
from tests.simulation.play import Stage, staged
from tests.simulation.troubles import NODE
from tests.simulation.worker import Machine, Program, Record
from tpuops.localcloud.core.profile import INSTANT, Profile
from tpuops.localcloud.core.table import ROUTES

HOUR_S = 3600.0
STEP_S = 20.0
SELDOM = 5
"""Of how many attempts one begins with weighing: what lies about is collected first, which takes long."""
SETTLED_S = 300.0
"""What was planted stands, however slow the cloud."""
KEPT_EVENTS = frozenset({"lease.taken", "train.stalled"})
"""What the properties ask the journal for."""
FORGOTTEN = ("/journal/", "/evidence/", "/logs/")
BLOCK_BYTES = 80
"""Of a small object, in the mean."""
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True, slots=True)
class Soaking:
    """A run of so many `hours` of training, taken `preemptions` times in them at moments that only a seed knows.

    `every`: how many steps go by between two checkpoints.
    """

    preemptions: int
    hours: float
    every: int = 3
    profile: Profile = INSTANT
    seed: int = 1

    def schedule(self) -> Schedule:
        """As the stage plays it."""
        program = Program(steps=round(self.hours * HOUR_S / STEP_S), every=self.every, step_s=STEP_S, keep=3)
        rng, mean_s = random.Random(f"soak/{self.seed}"), self.hours * HOUR_S / self.preemptions
        times = ((number + rng.random()) * mean_s for number in range(self.preemptions))
        faults = [{"on": {"after_s": at, "machine": NODE}, "do": {"preempt": True}} for at in times]
        patience_s = self.hours * 2 * HOUR_S
        return Schedule(
            self.seed,
            environment(provisioning="spot", vm=SMALL_VM, runtime=f"{round(self.hours * 2)}h"),
            program,
            tuple(faults),
            kinds=("soak",),
            profile=self.profile,
            patience_s=patience_s,
        )


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the process holds when an attempt begins.

    A leak may fill what lies free in the heap, and leave the resident size as it is: so what is in use is asked, too.
    """

    attempt: int
    rss_kb: int
    used_kb: int
    files: int
    tasks: int


@dataclass(slots=True)
class Soaked:
    """What came of it: `made` counts the calls that changed a machine, `journal` the events by kind."""

    history: History
    weighed: list[Weighed] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    journal: Counter[str] = field(default_factory=Counter)
    trained_s: float = 0.0
    """From the first step to the last."""


class Soak(Stage):
    """Weighs the process whenever an attempt begins, and forgets."""

    def __init__(self, soaking: Soaking) -> None:
        super().__init__(soaking.schedule())
        self.soaked = Soaked(self.history)
        self._counted = 0

    async def _plant(self) -> None:
        await super()._plant()
        await sleep(SETTLED_S)
        self.history.decoys = self._decoys()

    def _training_started(self, machine: Machine, record: Record) -> None:
        super()._training_started(machine, record)
        if record.spec.attempt % SELDOM:
            return
        self._forget()
        gc.collect()
        rss_kb = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB
        files, tasks = sum(1 for _ in Path("/proc/self/fd").iterdir()), len(asyncio.all_tasks())
        self.soaked.weighed.append(Weighed(record.spec.attempt, rss_kb, used_kb(), files, tasks))

    def _take_stock(self) -> None:
        started = self.history.started
        self.soaked.trained_s = asyncio.get_running_loop().time() - started[0].at if started else 0.0
        super()._take_stock()
        self._forget()

    def _forget(self) -> None:
        """Count, and let go of, what the properties do not look at."""
        world = self.net.core.world
        for key, row in list(world.items("request")):
            if row["mutating"] and row["service"] in {"tpu", "compute"}:
                self.soaked.made[row["method"]] += 1
            world.drop("request", key)
        for key in [key for key, _ in world.items("storage.object") if any(part in key for part in FORGOTTEN)]:
            world.drop("storage.object", key)
        for key in [key for key, done in world.items("tpu.operation") if done.get("done")]:
            world.drop("tpu.operation", key)
        world.take_dirt()
        ROUTES._found.cache_clear()
        events = self.history.events
        self.soaked.journal.update(event.kind for _, event in events[self._counted :])
        events[:] = [(who, event) for who, event in events if event.kind in KEPT_EVENTS]
        self._counted = len(events)
        for life in self.lives:
            life.points.clear()
        for past in self.history.started[:-1]:
            past.record.log, past.record.spec = bytearray(), self.history.started[-1].record.spec


def soaked(soaking: Soaking) -> Soaked:
    """Play it."""
    stages: list[Soak] = []

    def make() -> Soak:
        stages.append(Soak(soaking))
        return stages[-1]

    staged(make, soaking.seed)
    return stages[0].soaked


class _Heap(ctypes.Structure):
    """mallinfo2(3)."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (*"0123456", "used", *"89"))


def used_kb() -> int:
    """What is in use of the heap, small objects (in blocks of Python's own) and large ones."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Heap
    large = mallinfo2()
    return (int(large.used) + sys.getallocatedblocks() * BLOCK_BYTES) // 1024


def told(document: dict[str, Any]) -> dict[str, Any]:
    """Of a report what a soak is judged by."""
    return {key: document.get(key) for key in ("outcome", "attempts", "remains", "goodput")}
