"""The crash sweep: one life is lived undisturbed and its points are counted; then it is lived again, killed at a point.

A point is one phase of one call, of the cloud (lease, record and journal are objects, so their writes are calls) or of
the agent: before it is sent, after it took effect, after the reply. A controller touches nothing between two points, so
a kill between two writes is a kill at a point. The killed one cleans nothing up; the same command follows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.commands import given
from tests.simulation.drafts import SMALL_VM, Schedule, environment
from tests.simulation.history import Ended, History
from tests.simulation.lives import ANY, Doom, Life
from tests.simulation.loop import sleep
from tests.simulation.play import Stage, staged
from tests.simulation.properties import (
    p3_down_takes_the_rest_away,
    p4_what_is_not_ours_is_untouched,
    p9_training_goes_on_from_its_last_checkpoint,
    standing,
)
from tests.simulation.troubles import INFEED
from tests.simulation.worker import Program
from tpuops.lifecycle import told
from tpuops.lifecycle.site import Site

FIRST, SECOND, AGAIN = 200, 201, 202
LATER_S = 1.0
HOSTS = {True: "the same host", False: "another host"}
STEPS = Program(steps=60, every=10, step_s=1.2)
"""Slow enough for renewals of the lease, and for a successor on another host to find the training alive."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is swept: `command`, after commands that nobody disturbs. `open_run`: one was killed while it trained."""

    name: str
    command: str
    before: tuple[str, ...] = ()
    faults: tuple[dict[str, Any], ...] = ()
    open_run: bool = False
    success: str = "delete"
    labels: tuple[tuple[str, str], ...] = ()

    def schedule(self) -> Schedule:
        """As the stage plays it."""
        labels = {"labels": dict(self.labels)}
        wanted = environment(vm={**SMALL_VM, **labels}, success=self.success)
        wanted["tpu"].update(labels)
        return Schedule(1, wanted, STEPS, self.faults, kinds=(self.name,))


KILL = {"on": {"step": 23}, "do": {"kill": "train.py"}}
DEVICE = {"on": {"step": 23}, "do": {"device_fault": {"message": INFEED}}}
TAKEN = {"on": {"step": 23}, "do": {"preempt": True}}
TAKEN_IDLE = {"on": {"after_s": 5.0, "machine": "tpuops-sim-ada"}, "do": {"preempt": True}}
TEAM = (("team", "vision"),)
SCENES = (
    Scene("up", "up"),
    Scene("up over a lost node", "up", ("up", "wait"), (TAKEN_IDLE,)),
    Scene("up over other labels", "up", ("up", "relabel"), labels=TEAM),
    Scene("train", "train", ("up",)),
    Scene("run", "run"),
    Scene("run that keeps", "run", success="keep"),
    Scene("run with a restart", "run", faults=(KILL,)),
    Scene("run with stop and start", "run", faults=(DEVICE,)),
    Scene("run made anew", "run", faults=(TAKEN,)),
    Scene("down", "down", ("up",)),
    Scene("down with an open run", "down", open_run=True),
    Scene("stop", "stop", open_run=True),
)


@dataclass(slots=True)
class Swept:
    """One life of a scene: what was seen, and whether the run's end had been shown when the second one began."""

    history: History
    points: list[str]
    killed: bool = False
    told_then: bool = False
    again_changed: list[str] = field(default_factory=list)
    changes: Counter[str] = field(default_factory=Counter)

    @property
    def begun_anew(self) -> bool:
        """Whether the run was over, and its end shown, before the kill: then the next command is about a new one."""
        return self.killed and self.told_then and self.end.document.get("run_id") is not None

    @property
    def end(self) -> Ended:
        """How the command ended that nobody disturbed."""
        return next(end for end in reversed(self.history.ends) if end.life.pid in {FIRST, SECOND})


class Sweep(Stage):
    """A scene on the stage, its first controller killed at one point or none."""

    def __init__(self, scene: Scene, doom: Doom | None) -> None:
        super().__init__(scene.schedule())
        self.scene, self.doom = scene, doom
        self.swept = Swept(self.history, [])
        self._commands: dict[int, str] = {}

    async def _controllers(self) -> None:
        for number, command in enumerate(self.scene.before, 10):
            await (sleep(10.0) if command == "wait" else self._begin(Life("desk", number), command))
        if self.scene.open_run:
            life = Life("desk", 20)
            self._begin(life, "run")
            await sleep(30.0)
            assert self.history.started, "the run that is to be left open never trained"
            life.alive = False
        made = len(list(self.net.core.world.items("request")))
        await self._killed_and_followed()
        rows = [row for _, row in list(self.net.core.world.items("request"))[made:]]
        self.swept.changes = Counter(row["method"] for row in rows if _changes_machines(row))
        await self._once_more()

    async def _killed_and_followed(self) -> None:
        life = Life("desk", FIRST, self.doom)
        self.swept.points = life.points
        task = self._begin(life, self.scene.command)
        struck = asyncio.ensure_future(life.struck.wait())
        await asyncio.wait({task, struck}, return_when=asyncio.FIRST_COMPLETED)
        struck.cancel()
        if task.done():
            return
        assert self.doom is not None
        await sleep(self.doom.after_s)  # what was on its way when it died arrives
        self.swept.killed, self.swept.told_then = True, self._was_told()
        await self._begin(Life("desk" if self.doom.same_host else "elsewhere", SECOND), self.scene.command)

    async def _once_more(self) -> None:
        """A second `up` only reads."""
        if self.scene.command == "up":
            before = len(list(self.net.core.world.items("request")))
            await self._begin(Life("desk", AGAIN), "up")
            rows = [row for _, row in list(self.net.core.world.items("request"))[before:]]
            self.swept.again_changed = [row["method"] for row in rows if row["mutating"]]

    def _was_told(self) -> bool:
        """Whether the end of the run on record was shown."""
        run, shown = ((self.document(name) or {}).get("run_id") for name in ("run.json", told.NAME))
        return run is not None and run == shown

    def _begin(self, life: Life, command: str) -> asyncio.Task[Ended]:
        self._commands[life.pid] = command
        return self._spawn(life)

    async def _act(self, life: Life, site: Site) -> Ended:
        return await given(self._commands[life.pid], life, site)


def lived(scene: Scene, doom: Doom | None = None) -> Swept:
    """One life of a scene."""
    stages: list[Sweep] = []

    def make() -> Sweep:
        stages.append(Sweep(scene, doom))
        return stages[-1]

    staged(make, 1)
    return stages[0].swept


def dooms(points: int) -> Iterator[Doom]:
    """Every point, each with a successor on the same host and on another."""
    for call in range(1, points + 1):
        for same_host in (True, False):
            yield Doom(call, ANY, same_host, LATER_S)


def wrong(scene: Scene, whole: Swept, swept: Swept) -> list[str]:
    """What is not as it has to be after a life that was killed at a point, beside the undisturbed one."""
    found = list(swept.history.problems)
    found += p3_down_takes_the_rest_away(swept.history)
    found += p4_what_is_not_ours_is_untouched(swept.history)
    found += _p9(swept)
    found += _same_end(whole, swept)
    found += _same_training(whole, swept)
    found += _bounded(whole, swept)
    if swept.again_changed:
        found.append(f"P3: a second up changed something: {swept.again_changed}")
    if swept.history.open_operations:
        found.append(f"P10: operations are still under way: {swept.history.open_operations}")
    return found


def _p9(swept: Swept) -> list[str]:
    schedule = replace(swept.history.schedule, dooms=(Doom(1, ANY, True),) if swept.killed else ())
    return list(p9_training_goes_on_from_its_last_checkpoint(replace(swept.history, schedule=schedule)))


def _same_end(whole: Swept, swept: Swept) -> list[str]:
    wanted, got = _outcome(whole), _outcome(swept)
    if swept.begun_anew:
        wanted["logs"] = ["logs/1/exit.json", "logs/1/train.log"]
    return [f"{key} is {got[key]}, undisturbed it is {wanted[key]}" for key in wanted if wanted[key] != got[key]]


def _outcome(swept: Swept) -> dict[str, Any]:
    history, end = swept.history, swept.end
    document = end.document
    lease = [name for name in history.objects if name.endswith("/lease.json")]
    saved = {row["name"].partition("/saved/")[2] for row in document.get("saved", ())}
    took = any(who == end.life.pid and event.kind == "lease.taken" for who, event in history.events)
    return {
        "exit": f"{end.exit_code} {end.error}".strip(),
        "outcome": document.get("outcome"),
        "best step": document.get("best_step"),
        "kept": sorted(left["name"] for left in document.get("kept", ())),
        "remains": document.get("remains"),
        "stands": sorted(standing(history)),
        "states": sorted(each.get("state") or each.get("status") for each in _shown(history)),
        "labels": sorted(sorted(each.get("labels", {}).items()) for each in _shown(history)),
        "outputs": sorted(name for name in saved if name.startswith("outputs/")),
        "logs": sorted(name for name in saved if name.startswith("logs/")),
        "lease held": lease if took else [],
    }


def _shown(history: History) -> list[dict[str, Any]]:
    return [*history.nodes.values(), *history.vms.values()]


def _same_training(whole: Swept, swept: Swept) -> list[str]:
    """As many processes as undisturbed; after an end that was shown `run` begins another one, and only then."""
    wanted, got = len(whole.history.started), len(swept.history.started)
    if swept.begun_anew:
        wanted += 1  # which meets no fault: each fires once
    return [] if got == wanted else [f"{got} training processes were started, it should be {wanted}"]


def _bounded(whole: Swept, swept: Swept) -> list[str]:
    """Of each change of a machine at most one more than undisturbed; a closed run is simply run a second time."""
    times = 2 if swept.begun_anew else 1
    found = swept.changes - Counter({key: count * times for key, count in whole.changes.items()})
    return [f"P7: {count} more of {method}" for method, count in found.items() if count > 1]


def _changes_machines(row: dict[str, Any]) -> bool:
    return bool(row["mutating"]) and row["service"] in {"tpu", "compute"}
