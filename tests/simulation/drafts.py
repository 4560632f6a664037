"""A schedule as a value, and as it is being drawn. What it is drawn from is in `schedules`.

It is plain data, so the same one can be played in virtual time and given to the real embedded cloud.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.lives import Doom
from tests.simulation.troubles import DONE
from tests.simulation.worker import Program
from tpuops.localcloud.core.profile import INSTANT, Profile


@dataclass(frozen=True, slots=True)
class Outsider:
    """Somebody else deletes our VM and puts their own under its name, so many seconds after the beginning."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """One life to be lived. `permitted` are the exit codes it may end with, `profile` is how long the cloud takes.

    One that is not over after `patience_s` seconds of its own time is broken.
    """

    seed: int
    environment: dict[str, Any]
    program: Program
    faults: tuple[dict[str, Any], ...] = ()
    dooms: tuple[Doom, ...] = ()
    outsider: Outsider | None = None
    permitted: frozenset[int] = frozenset({DONE})
    kinds: tuple[str, ...] = ()
    wired: bool = True
    profile: Profile = INSTANT
    patience_s: float = 6 * 3600.0

    @property
    def spot(self) -> bool:
        """Whether the node may be taken at any time."""
        return bool(self.environment["tpu"]["provisioning"] == "spot")

    @property
    def script(self) -> dict[str, Any]:
        """The fault script, as the embedded cloud reads it."""
        return {"progress": {"file": "**/train.log", "pattern": r"step=(\d+)"}, "faults": list(self.faults)}


SMALL_VM = {"machine_type": "e2-small"}


def environment(
    *,
    provisioning: str = "on-demand",
    vm: str | dict[str, Any] = "none",
    success: str = "delete",
    failure: str = "delete",
    runtime: str = "1d",
) -> dict[str, Any]:
    """The content of an environment file."""
    return {
        "version": 1,
        "cloud": "local",
        "project": "local-sim",
        "zone": "us-central1-a",
        "tpu": {"accelerator": "v3-8", "runtime": "tpu-ubuntu2204-base", "provisioning": provisioning},
        "vm": vm,
        "train": {
            "source": "source",
            "command": ["python3", "train.py"],
            "outputs": ["outputs"],
            "progress": r"step=(\d+)",
        },
        "teardown": {"success": success, "failure": failure},
        "limits": {"runtime": runtime},
    }


@dataclass(slots=True)
class Draft:
    """A schedule while it is being drawn."""

    rng: random.Random
    schedule: Schedule
    steps: list[int] = field(default_factory=list)

    def add(self, kind: str, *faults: dict[str, Any], ends: frozenset[int] | None = None, wired: bool = True) -> None:
        """Append faults. `ends` replaces the permitted ends (an ingredient that decides how it ends)."""
        old = self.schedule
        self.schedule = replace(
            old,
            faults=(*old.faults, *faults),
            permitted=old.permitted if ends is None else ends,
            kinds=(*old.kinds, kind),
            wired=old.wired and wired,
        )

    def change(self, **fields: Any) -> None:
        """Set fields of the schedule."""
        self.schedule = replace(self.schedule, **fields)

    def step(self) -> int:
        """A step at which nothing happens yet, not a checkpoint's own."""
        free = [step for step in range(4, self.schedule.program.steps - 8) if step % 10 in {3, 4, 5, 6, 7}]
        free = [step for step in free if all(abs(step - other) > 4 for other in self.steps)]
        chosen = self.rng.choice(free)
        self.steps.append(chosen)
        return chosen
