"""The story on the embedded cloud, with a fault script: the same lifecycle, a private stage, nothing left behind.

The stage is a cloud of its own in a folder of its own, so that a rehearsal never meets the embedded cloud a person
works on. A fault that did not fire fails the rehearsal: a failure that never happened proves nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuops import embedded, templates
from tpuops.cloud.port import ObjectStore
from tpuops.environment import Environment
from tpuops.errors import EnvironmentFileError
from tpuops.journal import Listener
from tpuops.lifecycle.opening import Opening, open_site
from tpuops.lifecycle.run import run
from tpuops.stages.check import trainable
from tpuops.stages.run import prefix

METRICS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What to rehearse and where: `folder` is created and removed; `faults` None means the default script."""

    environment: Environment
    folder: Path
    faults: Path | None
    listeners: tuple[Listener, ...]
    show: Callable[[bytes], None]


async def rehearse(asked: Rehearsal) -> dict[str, Any]:
    """Run the environment whole on a private embedded cloud and return the run's document with `faults` and `metrics`.

    Raises:
        EnvironmentFileError: a fault of the script never fired (the document's run is over and torn down by then).
    """
    environment = asked.environment.on_embedded_cloud()
    trainable(environment)
    async with _stage(asked.folder, _script(environment, asked)) as stage:
        opening = Opening(environment, stage, asked.folder / "spool", asked.listeners, asked.show, verb="rehearse")
        async with open_site(opening) as (site, source):
            report = await run(site, source())
            metrics = await _metrics(site.store, report.run.get("run_id", ""))
        fired = embedded.ask(stage, "GET", "/_cloud/faults")["faults"]
    document = {**report.document, "faults": fired, "metrics": metrics}
    _check_fired(document)
    return document


@asynccontextmanager
async def _stage(folder: Path, script: str) -> AsyncIterator[embedded.Stage]:
    folder.mkdir(parents=True, mode=0o700)
    faults = folder / "faults.yaml"
    faults.write_text(script, encoding="utf-8")
    state = folder / "cloud"
    try:
        yield await embedded.ensure(state, faults=faults)
    finally:
        await embedded.stop(state)
        shutil.rmtree(folder)


def _script(environment: Environment, asked: Rehearsal) -> str:
    if asked.faults is not None:
        return asked.faults.read_text(encoding="utf-8")
    if environment.train.progress is None:
        raise EnvironmentFileError(
            f"{environment.path}: train.progress is needed, because the default faults fire at training steps",
            hint="set `train.progress`, or give a script with --faults",
        )
    command = environment.rehearsal.command or environment.train.command
    values = {"progress": environment.train.progress, "process": command[-1]}
    return templates.render("faults/default.yaml", values)


async def _metrics(store: ObjectStore, run_id: str) -> Mapping[str, Any]:
    """The numbers the program itself wrote to `metrics.json` in its outputs; none where it wrote none."""
    for stat in await store.list(f"{prefix(run_id)}saved/") if run_id else ():
        if stat.name.endswith("/metrics.json") and stat.size <= METRICS_BYTES:
            found = await store.read(stat.name)
            document = json.loads(found.data) if found is not None else {}
            return document if isinstance(document, dict) else {}
    return {}


TOLD = ("on", "do", "missed")
"""What is said of a fault that did not fire; `missed`: what the machine found instead."""


def _check_fired(document: Mapping[str, Any]) -> None:
    unfired = [fault for fault in document["faults"] if fault.get("fired_at") is None]
    if unfired and document["exit_code"] == 0:
        raise EnvironmentFileError(
            f"{len(unfired)} fault(s) of the script never fired, so the rehearsal proves nothing of them",
            evidence=[json.dumps({key: fault[key] for key in TOLD if key in fault}) for fault in unfired],
            hint="let the training run longer, or name earlier steps in the fault script",
        )
