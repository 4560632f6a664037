"""A signal while machines are being removed: the removal is finished and looked at, or what is left is named.

All of it strikes environments of one embedded cloud at once, as processes, over the wire.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.conftest import TRAINER, User
from tests.lifecycle.test_local_faults import written
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(400)]

PASSES = {"error": {"http": 503, "status": "UNAVAILABLE", "message": "The service is currently unavailable."}}
REFUSED = {"error": {"http": 403, "status": "PERMISSION_DENIED", "message": "Permission 'tpu.nodes.delete' denied"}}
SIGNALS = {
    "term": ("run", (signal.SIGTERM,), [PASSES] * 4),
    "ctrlc": ("run", (signal.SIGINT,), [PASSES] * 4),
    "twice": ("run", (signal.SIGINT, signal.SIGINT), [PASSES] * 4),
    "stuck": ("run", (signal.SIGTERM,), [PASSES, REFUSED]),
    "down": ("down", (signal.SIGTERM,), [PASSES] * 4),
    "downstuck": ("down", (signal.SIGINT,), [PASSES, REFUSED]),
}
"""By environment: the command, the signals that come once it has begun to delete, and what becomes of its deletions."""


def struck(user: User, until: Callable[..., Any]) -> dict[str, tuple[int, str]]:
    """By environment: exit code and all that was said."""
    stage = embedded.status(user.state)
    assert stage is not None
    for name, (_, _, deeds) in SIGNALS.items():
        on = {"method": "tpu.nodes.delete", "resource": f"*/tpuops-{name}-ada"}
        embedded.ask(stage, "POST", "/_cloud/faults", json.dumps([{"on": on, "do": deed} for deed in deeds]).encode())
    running = {name: user.start(command, "--env", name) for name, (command, _, _) in SIGNALS.items()}
    waiting = dict(running)
    while waiting:
        name = until(lambda: next((each for each in waiting if deleting(user, each, SIGNALS[each][0])), None), 90)
        ended(waiting.pop(name), SIGNALS[name][1], until)
    said = {name: [out.decode() for out in process.communicate(timeout=90)] for name, process in running.items()}
    return {name: (process.returncode, "".join(said[name])) for name, process in running.items()}


def deleting(user: User, name: str, command: str) -> bool:
    spool = Path(user.env["TPUOPS_STATE"]) / "local-tests" / name / "journal"
    return any(b'"node.delete"' in path.read_bytes() for path in spool.glob(f"*-{command}.jsonl"))


def ended(process: subprocess.Popen[bytes], signals: tuple[signal.Signals, ...], until: Callable[..., Any]) -> None:
    first, *again = signals
    process.send_signal(first)
    for number in again:
        until(lambda: process.poll() is not None or not pending(process.pid, first))
        process.send_signal(number)


def pending(pid: int, number: signal.Signals) -> bool:
    """Whether the signal has not been taken yet: two of one kind would become one."""
    text = Path(f"/proc/{pid}/status").read_text()
    masks = [int(found, 16) for found in re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)", text, re.MULTILINE)]
    return any(mask >> (number - 1) & 1 for mask in masks)


def test_a_removal_is_finished_or_what_is_left_is_named(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER)
    user.run("cloud.start")
    for name in SIGNALS:
        written(user, name, "40")
    for name in ("down", "downstuck"):
        user.run("up", "--env", name)
    codes = struck(user, until)
    assert {name: code for name, (code, _) in codes.items()} == {
        "term": 143,
        "ctrlc": 130,
        "twice": 130,
        "stuck": 6,
        "down": 143,
        "downstuck": 6,
    }, codes
    standing = {node["name"].rpartition("/")[2] for node in user.standing()["nodes"]}
    assert standing == {f"tpuops-{name}-ada" for name in ("twice", "stuck", "downstuck")}
    for name, (_, said) in codes.items():
        assert "Traceback" not in said, said
        assert "a training on them goes on" not in said, said
        remove = f"gcloud compute tpus tpu-vm delete tpuops-{name}-ada --zone=us-central1-a --project=local-tests"
        assert (remove in said) == (name in {"stuck", "downstuck"}), said
    assert "the removal is finished first" in codes["term"][1]
    assert "ended at once, before cleaning up" in codes["twice"][1]

    for name in ("term", "ctrlc", "twice", "stuck"):  # as a scheduler does: it is the end of the same run
        again = user.run("run", "--env", name)
        assert (again["outcome"], again["attempts"], again["remains"]) == ("done", 1, []), name
    assert user.run("down", "--env", "downstuck")["removed"] == ["tpuops-downstuck-ada"]
    assert user.standing()["nodes"] == []
    made = [request["resource"] for request in user.requests() if request["method"] == "tpu.nodes.create"]
    assert len(made) == len(SIGNALS), "the same training was paid for twice"
