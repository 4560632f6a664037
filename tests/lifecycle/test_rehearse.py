"""The main job: the digits example through one failure of each recoverable kind, on a cloud of its own."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.lifecycle.conftest import User

pytestmark = pytest.mark.wire
ROOT = Path(__file__).parents[2]


def complete(name: str) -> int:
    """The step of the newest complete checkpoint, by the newest object's name: data first, the manifest last."""
    found = re.search(r"(\d+)", name)
    assert found, name
    return int(found.group(1)) - (0 if name.endswith(".json") else 20)


def listening(user: User) -> list[str]:
    """Processes that still work below the state folder, whose ports would be open."""
    state, found = user.env["TPUOPS_STATE"].encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if state in (process / "cmdline").read_bytes() or state in (process / "mountinfo").read_bytes():
                found.append(process.name)
    return found


def test_rehearse_survives_every_failure_and_leaves_nothing(user: User) -> None:
    scratch = user.folder / "scratch"
    scratch.mkdir()
    user.env.update(TPUOPS_ENV="v3-8", TMPDIR=str(scratch))
    user.folder = ROOT
    document = user.run("rehearse", timeout_s=150)
    assert document["outcome"] == "done"
    assert document["metrics"]["test_accuracy"] >= 0.95
    assert [row["action"] for row in document["recoveries"]] == ["restart", "restart", "stop_start", "recreate"]
    for row in document["recoveries"]:
        if row["resumed_step"] is not None:
            assert row["resumed_step"] >= complete(row["checkpoint"])
    assert all(fault["fired_at"] is not None for fault in document["faults"])
    assert document["remains"] == []
    assert document["cost_usd"] > 0
    places = [Path(user.env["TPUOPS_STATE"]) / "rehearsals", Path(user.env["HOME"]), scratch]
    assert [path for place in places for path in place.rglob("*") if not path.is_dir()] == []
    assert listening(user) == []


def test_a_fault_that_never_fires_fails_the_rehearsal(user: User) -> None:
    script = user.folder / "faults.yaml"
    script.write_text(
        r'{progress: {file: "**/train.log", pattern: "step=(\\d+)"}, '
        "faults: [{on: {step: 100000}, do: {preempt: true}}]}"
    )
    document = user.run("rehearse", "--faults", str(script), code=2)
    assert "never fired" in document["error"]["message"]
