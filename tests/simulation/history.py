"""What is kept of a life for the properties to judge. Nothing here acts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.simulation.drafts import Schedule
from tests.simulation.lives import Life
from tests.simulation.worker import Record
from tpuops.journal import Event

LAST = 999
"""The process id of the controller that takes everything down when the schedule is over."""


@dataclass(slots=True)
class Attempted:
    """A training process that started: on which machine, of which run, with what to resume from."""

    at: float
    machine: str
    run_id: str
    attempt: int
    checkpoint: int
    record: Record


@dataclass(slots=True)
class Ended:
    """How one controller ended: its report's document, or the error it raised."""

    life: Life
    exit_code: int
    document: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(slots=True)
class History:
    """Everything the properties look at. `problems` are found while the schedule is played."""

    schedule: Schedule
    ends: list[Ended] = field(default_factory=list)
    events: list[tuple[int, Event]] = field(default_factory=list)
    started: list[Attempted] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    decoys: dict[str, Any] = field(default_factory=dict)
    decoys_after: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    vms: dict[str, Any] = field(default_factory=dict)
    open_operations: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, Any] = field(default_factory=dict)
    after_down: dict[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> Ended:
        """The end that counts: of the last controller to hold the lease, unless it was turned away."""
        judged = [end for end in self.ends if end.exit_code != 7] or self.ends
        holders = [who for who, event in self.events if event.kind == "lease.taken" and who != LAST]
        return next((end for end in judged if holders and end.life.pid == holders[-1]), judged[-1])
