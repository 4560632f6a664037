"""The same schedules over the wire: the real embedded cloud, its machines, the product's own clients and SSH."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.cloud_fixture import LocalCloud
from tests.simulation.drafts import Schedule
from tpuops import embedded
from tpuops.environment import load
from tpuops.errors import TpuopsError
from tpuops.lifecycle.opening import Opening, open_site
from tpuops.lifecycle.run import run

TRAINER = Path(__file__).parent / "trainer"
PACE_S = 0.02
PATIENCE_S = 60.0


def outcome(exit_code: int, document: dict[str, Any], stands: list[str]) -> dict[str, Any]:
    """What has to be equal in virtual time and over the wire."""
    return {
        "exit_code": exit_code,
        "outcome": document.get("outcome", ""),
        "class": document.get("class", ""),
        "recoveries": sorted((row["class"], row["action"]) for row in document.get("recoveries", [])),
        "kept": sorted(left["kind"] for left in document.get("kept", [])),
        "remains": sorted(left["kind"] for left in document.get("remains", [])),
        "stands": sorted(stands),
    }


def lived(schedule: Schedule, folder: Path) -> dict[str, Any]:
    """The outcome of a schedule on an embedded cloud of its own below `folder`."""
    os.environ["TPUOPS_OWNER"], os.environ["TPUOPS_STATE"] = "ada", str(folder / "state")
    path = _written(schedule, folder)
    faults = folder / "faults.json"
    faults.write_text(json.dumps(schedule.script))
    served = LocalCloud(folder / "state" / "cloud", "--seed", str(schedule.seed), "--faults", str(faults))
    served.state.parent.mkdir(parents=True, exist_ok=True)
    served.start()
    try:
        for doom in schedule.dooms:
            _killed(served, folder, doom.method)
        code, document = asyncio.run(_run(path, served.state, folder))
        status = served.status()
        stands = [*status["nodes"], *status["instances"]]
        return outcome(code, document, ["node" if "node" in str(each) else "vm" for each in stands])
    finally:
        served.stop()


def _written(schedule: Schedule, folder: Path) -> Path:
    """The environment's file with its source beside it."""
    program = schedule.program
    variables = {"STEPS": program.steps, "EVERY": program.every, "PACE": PACE_S, "BUG_AT": program.bug_at or -1}
    environment = json.loads(json.dumps(schedule.environment))
    environment["train"]["env"] = {name: str(value) for name, value in variables.items()}
    environment["train"]["source"] = "../source"
    (folder / "environments").mkdir()
    (folder / "source").mkdir()
    for file in TRAINER.glob("*.py"):
        (folder / "source" / file.name).write_text(file.read_text())
    path = folder / "environments" / "sim.yaml"
    path.write_text(yaml.safe_dump(environment))
    return path


async def _run(path: Path, state: Path, folder: Path) -> tuple[int, dict[str, Any]]:
    stage = embedded.status(state)
    assert stage is not None
    opening = Opening(load(path), stage, folder / "state", (), lambda data: None, "run")
    try:
        async with open_site(opening) as (site, source):
            report = await run(site, source())
    except TpuopsError as error:
        return error.exit_code, {"cause": error.message}
    return report.exit_code, report.document


def _killed(served: LocalCloud, folder: Path, method: str) -> None:
    """A controller that is killed as soon as the cloud has seen its call of `method`."""
    command = [sys.executable, "-m", "tpuops.program", "run", "--env", "sim", "--json"]
    with (folder / "killed.log").open("ab") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, start_new_session=True)
    deadline = time.monotonic() + PATIENCE_S
    while not served.requests(method=method) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"


def with_dooms(schedule: Schedule, *dooms: Any) -> Schedule:
    """The same schedule with controllers that die."""
    return replace(schedule, dooms=dooms)
