"""The digits example: it learns, resumes exactly, passes over a damaged checkpoint, and stops when told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.templates.storage_server import StorageServer
from tpuops import templates

PROGRAM = templates.folder("digits") / "train.py"


class Digits:
    """The program with a folder for its checkpoints and one for its outputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TPUOPS_CHECKPOINTS": str(folder / "checkpoints"),
            "TPUOPS_OUTPUTS": str(folder / "outputs"),
        }

    def popen(self, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM)], env={**self.env, **env}, cwd=self.folder, text=True, stdout=subprocess.PIPE
        )

    def run(self, code: int, **env: str) -> str:
        process = self.popen(**env)
        out, _ = process.communicate(timeout=100)
        assert process.returncode == code, out[-2000:]
        return out

    def model(self) -> dict[str, Any]:
        with np.load(self.folder / "outputs" / "model.npz") as arrays:
            return {name: arrays[name] for name in arrays.files}


@pytest.fixture
def digits(home: Path) -> Iterator[Digits]:
    yield Digits(home)


def steps(log: str) -> list[int]:
    return [int(number) for number in re.findall(r"^step=(\d+) loss=[\d.]+ accuracy=[\d.]+$", log, re.M)]


def killed_at(digits: Digits, step: int, number: int, **env: str) -> str:
    """The log of a run that got a signal after a step."""
    process, log = digits.popen(DIGITS_SECONDS_PER_STEP="0.01", **env), ""
    assert process.stdout is not None
    for line in process.stdout:
        log += line
        if line.startswith(f"step={step} "):
            process.send_signal(number)
    process.wait()
    process.stdout.close()
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 143)
    return log


def test_it_learns_the_digits_and_a_killed_run_resumes_to_the_very_same_model(digits: Digits) -> None:
    whole = digits.run(0)
    assert steps(whole) == list(range(1, 241)) and "devices=8" in whole
    accuracy = json.loads((digits.folder / "outputs" / "metrics.json").read_text())["test_accuracy"]
    assert accuracy >= 0.95 and f"test accuracy={accuracy:.4f}" in whole.splitlines()[-1]
    assert sorted(path.name for path in (digits.folder / "checkpoints").glob("*.json")) == [
        "step-00000200.json",
        "step-00000220.json",
        "step-00000240.json",
    ]
    expected = digits.model()
    broken = {"TPUOPS_CHECKPOINTS": str(digits.folder / "other")}
    first = killed_at(digits, 50, signal.SIGKILL, **broken)
    rest = digits.run(0, **broken)
    assert steps(rest)[0] == max(step for step in range(0, steps(first)[-1] + 1, 20)) + 1
    assert [line for line in rest.splitlines() if "step=240 " in line] == [
        line for line in whole.splitlines() if "step=240 " in line
    ]
    found = digits.model()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_a_damaged_newest_checkpoint_is_passed_over(digits: Digits) -> None:
    digits.run(1, DIGITS_STEPS="6", DIGITS_CHECKPOINT_EVERY="2")
    folder = digits.folder / "checkpoints"
    (folder / "step-00000006.npz").write_bytes((folder / "step-00000006.npz").read_bytes()[:-1] + b"?")
    (folder / "step-00000008.npz").write_bytes(b"data without a manifest")
    (folder / "step-00000007.json").write_text("{ half a manif")
    log = digits.run(1, DIGITS_STEPS="8", DIGITS_CHECKPOINT_EVERY="2")
    assert log.count("passed over") == 2 and "resumed_step=4" in log and steps(log) == [5, 6, 7, 8]


def test_sigterm_saves_a_last_checkpoint(digits: Digits) -> None:
    log = killed_at(digits, 7, signal.SIGTERM)
    last = steps(log)[-1]
    assert f"stopped by SIGTERM after step {last}" in log
    assert f"resumed_step={last}" in digits.run(1, DIGITS_STEPS=str(last + 1))


def test_too_little_training_is_a_failure(digits: Digits) -> None:
    assert "test accuracy=" in digits.run(1, DIGITS_STEPS="2")


def test_it_checkpoints_into_a_bucket(digits: Digits, storage: StorageServer) -> None:
    digits.env.update(storage.environment(), TPUOPS_CHECKPOINTS="gs://b/runs/r1/checkpoints")
    digits.run(1, DIGITS_STEPS="10", DIGITS_CHECKPOINT_EVERY="2")
    names = [f"runs/r1/checkpoints/step-000000{step}.{kind}" for step in ("06", "08", "10") for kind in ("json", "npz")]
    assert sorted(storage.objects) == names
    storage.objects[names[-1]] = b"damaged"
    assert "resumed_step=8" in digits.run(1, DIGITS_STEPS="12")
