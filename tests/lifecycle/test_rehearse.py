"""The main job: the digits example through one failure of each recoverable kind, on a cloud of its own."""

from __future__ import annotations

import re
import subprocess
import sys
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


def test_rehearse_survives_every_failure_and_leaves_nothing(user: User) -> None:
    env = {**user.env, "TPUOPS_ENV": "v3-8"}
    user.env.update(env)
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
    assert list(Path(user.env["TPUOPS_STATE"]).glob("rehears*/*")) == []


def test_a_fault_that_never_fires_fails_the_rehearsal(user: User) -> None:
    script = user.folder / "faults.yaml"
    script.write_text(
        r'{progress: {file: "**/train.log", pattern: "step=(\\d+)"}, '
        "faults: [{on: {step: 100000}, do: {preempt: true}}]}"
    )
    document = user.run("rehearse", "--faults", str(script), code=2)
    assert "never fired" in document["error"]["message"]


def test_list_imports_no_google_client() -> None:
    program = "import sys; from tpuops.program import main\ntry: main(['tpuops', '--list'])\nexcept SystemExit: pass\n"
    program += "print([name for name in sys.modules if name.split('.')[0] in ('google', 'asyncssh', 'pydantic')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
