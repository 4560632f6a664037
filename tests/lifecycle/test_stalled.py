"""A program that hangs is ended and goes on from its checkpoint; one that is merely slow is left alone."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.parse import quote

import pytest

from tests.lifecycle.conftest import User
from tpuops import embedded

pytestmark = pytest.mark.wire

RESUMING = """
import faulthandler, os, signal, time
import jax
faulthandler.register(signal.SIGQUIT)
signal.signal(signal.SIGTERM, lambda *_: None)
out = os.environ["TPUOPS_OUTPUTS"]
kept = os.path.join(out, "step.txt")
done = int(open(kept).read()) if os.path.exists(kept) else 0
print(f"goes on from {done}", flush=True)
for step in range(done + 1, 41):
    time.sleep(0.1)
    print(f"step={step} loss={1 / step:.3f}", flush=True)
    open(kept + ".new", "w").write(str(step))
    os.rename(kept + ".new", kept)
"""
"""Hears no SIGTERM once it hangs, shows its stack at SIGQUIT and goes only at SIGKILL."""

SLOW = """
import time
print("compiling", flush=True)
time.sleep(6)
for step in range(3):
    time.sleep(7 if step == 2 else 1.5)
    print(f"step={step}", flush=True)
print("Evaluating", flush=True)
time.sleep(7)
"""
"""In every phase silent for longer than `train`: before its first step, in a slow step, and while it evaluates."""


def written(user: User, program: str, start: str, train: str) -> None:
    user.write(program)
    (user.folder / "source" / "jax.py").write_text("")  # what a program with a device imports
    path = user.folder / "environments" / "tiny.yaml"
    text = path.read_text().replace("teardown:", f"  stall: {{start: {start}, train: {train}}}\nteardown:")
    path.write_text(text.replace("{machine_type: e2-small}", "none"))


def test_a_hung_program_is_ended_and_goes_on_from_its_checkpoint(user: User) -> None:
    written(user, RESUMING, start="30s", train="6s")
    user.run("cloud.start")
    stage = embedded.status(user.state)
    assert stage is not None
    fault = {"on": {"step": 10}, "do": {"hang": "train.py"}}
    embedded.ask(stage, "POST", "/_cloud/faults", json.dumps([fault]).encode())

    process = user.start("run", "--json")
    out, err = process.communicate(timeout=110)
    assert process.returncode == 0, err.decode()
    document: dict[str, Any] = json.loads(out)
    assert (document["outcome"], document["attempts"], document["remains"]) == ("done", 2, [])
    row = document["recoveries"][0]
    assert (row["class"], row["action"], row["budget"]) == ("hang", "restart", "infrastructure")
    assert row["resumed_step"] == row["step"] + 1 > 10
    assert "has stalled (train): no output for" in err.decode()
    assert "nothing advanced for" in err.decode()
    explained, _ = user.start("diagnose", "--run", "newest", "--json").communicate(timeout=60)
    assert [each["class"] for each in json.loads(explained)] == ["hang", "healthy"]
    saved = contents(user, "evidence/1/stacks.txt", "logs/1/train.log", "logs/1/exit.json")
    assert b"thread" in saved[0] and b"state" in saved[0]
    assert b"most recent call first" in saved[1]
    assert json.loads(saved[2])["signal"] == 9


def contents(user: User, *endings: str) -> list[bytes]:
    """The home bucket's objects with these names."""
    stage = embedded.status(user.state)
    assert stage is not None
    bucket = embedded.ask(stage, "GET", "/storage/v1/b?project=local-tests")["items"][0]["name"]
    names = [each["name"] for each in embedded.ask(stage, "GET", f"/storage/v1/b/{bucket}/o")["items"]]
    found = [next(name for name in names if name.endswith(ending)) for ending in endings]
    urls = [f"{stage.url}/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media" for name in found]
    return [urllib.request.urlopen(url, timeout=20).read() for url in urls]


def test_a_slow_program_that_lives_is_left_alone(user: User) -> None:
    written(user, SLOW, start="60s", train="5s")
    document = user.run("run")
    assert (document["outcome"], document["attempts"], document["recoveries"]) == ("done", 1, [])
