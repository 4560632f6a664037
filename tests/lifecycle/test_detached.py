"""A run that was left to its machine: it is healthy for as long as it likes, ends by itself, and its end is told once.

Over the wire, in scaled time: `abandoned` is seconds here, as in test_reapers.py. The trainings do what signals tell
them; they save their state on SIGTERM and end with 0, as many programs do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.conftest import ENVIRONMENT, User, kill
from tests.lifecycle.test_reapers import GRACE_S, MARGIN_S, ask, bucket, names

pytestmark = [pytest.mark.wire, pytest.mark.timeout(600)]

TRAINER = """
import os, signal, sys, time
out = os.environ["TPUOPS_OUTPUTS"]
os.makedirs(out, exist_ok=True)
open(os.path.join(out, f"begun-{os.environ['TPUOPS_ATTEMPT']}.txt"), "w").close()
told = []
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
    signal.signal(number, lambda number, _: told.append(number))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
step, first = 0, os.environ["TPUOPS_ATTEMPT"] == "1"
while signal.SIGUSR1 not in told and (first or step < 20):
    print(f"step={step}", flush=True)
    step += 1
    time.sleep(0.1)
    if signal.SIGUSR2 in told:
        {}["conv"]
    while signal.SIGALRM in told:
        time.sleep(1)
"""
"""SIGUSR1: it is done. SIGUSR2: it fails. SIGALRM: it hangs. A second attempt ends by itself."""

ENDS = {"done": signal.SIGUSR1, "buggy": signal.SIGUSR2, "killed": signal.SIGKILL, "hung": signal.SIGALRM}


@pytest.fixture
def hurried(user: User) -> Iterator[User]:
    """The user with an environment for each fate, whose machines wait seconds and whose trainings know its name."""
    user.write(TRAINER)
    text = ENVIRONMENT.replace('STEPS: "<steps>", PACE: "<pace>"', "NAME: <name>").replace("<interrupt>", "keep")
    text = text.replace("<success>", "delete").replace("<failure>", "delete")
    text = text.replace("teardown:", "  stall: {start: 8s, train: 8s}\nteardown:")
    text += f"limits: {{abandoned: {GRACE_S:.0f}s}}\n"
    for name in ("healthy", "limited", "finished", "saving", "kept", *ENDS):
        vm = "{machine_type: e2-small}" if name == "healthy" else "none"
        path = user.folder / "environments" / f"{name}.yaml"
        limit = text.replace("limits: {", "limits: {runtime: 1m, ") if name == "limited" else text
        path.write_text(limit.replace("{machine_type: e2-small}", vm).replace("<name>", name))
    user.run("cloud.start")
    yield user


def processes(user: User, word: bytes) -> list[int]:
    """What runs on the machines with this word in its command, as the host sees it."""
    state, found = os.fsencode(user.env["TPUOPS_STATE"]), []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and word in (entry / "cmdline").read_bytes():
                found += [int(entry.name)] if state in (entry / "mountinfo").read_bytes() else []
    return found


def training(user: User, name: str) -> int | None:
    """The process of an environment's training."""
    for process in processes(user, b"\0train.py\0"):
        with suppress(OSError):
            if f"NAME={name}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                return process
    return None


def steps(user: User, name: str) -> int:
    """How many steps an environment's training has said."""
    process = training(user, name)
    log = Path(f"/proc/{process}/fd/1").read_bytes() if process else b""
    return log.count(b"step=")


def ended(user: User, commands: dict[str, tuple[str, ...]], timeout_s: float = 200) -> dict[str, tuple[int, Any, str]]:
    """Give these commands at once, one for each environment; exit code, document and what was said."""
    begun = {name: user.start(*words, "--env", name, "--json") for name, words in commands.items()}
    ends = {}
    for name, process in begun.items():
        out, err = process.communicate(timeout=timeout_s)
        ends[name] = process.returncode, json.loads(out), err.decode()
    return ends


def lease(user: User, name: str) -> Any:
    return user.run("lock.show", "--env", name)["lease"]


def creates(user: User, name: str) -> int:
    made = [each for each in user.requests() if each["method"] == "tpu.nodes.create"]
    return sum(1 for each in made if f"tpuops-{name}-ada" in json.dumps(each))


def begun(user: User, until: Callable[..., Any]) -> int:
    """Leave the runs alone, and kill the controllers of two others, one of which is done at once; the healthy one's
    process."""
    controllers = {name: user.start("run", "--env", name) for name in ("finished", "saving")}
    for name, (code, document, said) in ended(
        user, dict.fromkeys(("healthy", "limited", *ENDS), ("run", "--detach"))
    ).items():
        assert (code, document["outcome"], document["remains"]) == (0, "detached", []), said
        assert document["left"]["machine"] == f"tpuops-{name}-ada"
    until(lambda: all(steps(user, name) for name in controllers), 60)
    for controller in controllers.values():
        kill(controller)
    end(user, "finished", signal.SIGUSR1)
    healthy = training(user, "healthy")
    assert healthy is not None
    return healthy


def end(user: User, name: str, number: int) -> None:
    process = training(user, name)
    assert process is not None
    os.kill(process, number)


def told(user: User) -> dict[str, Any]:
    """What the next `run` of each says, the healthy one's not: all that ended well is not trained again."""
    ends = ended(user, dict.fromkeys((*ENDS, "finished", "saving", "limited"), ("run",)))
    expected = {
        "done": (0, "done", 1, 1, []),
        "finished": (0, "done", 1, 1, []),
        "buggy": (10, "failed", 1, 1, []),
        "killed": (0, "done", 2, 2, ["process_killed"]),
        "hung": (0, "done", 2, 2, ["hang"]),
        "saving": (0, "done", 2, 2, []),  # an end that the machine made is not the program's own
        "limited": (8, "limit", 1, 1, []),
    }
    wrong = {}
    for name, (code, document, said) in ends.items():
        classes = [row["class"] for row in document["recoveries"]]
        found = code, document["outcome"], document["attempts"], creates(user, name), classes
        logs = [each for each in document["saved"] if each["name"].endswith("/train.log")]
        if found != expected[name] or not logs:
            wrong[name] = found, said
    assert wrong == {}
    assert ends["buggy"][1]["cause"] == "KeyError: 'conv'"
    return {name: document for name, (_, document, _) in ends.items()}


def test_each_run_that_is_left_alone_ends_as_it_has_to_and_its_end_is_told_once(
    hurried: User, until: Callable[..., Any]
) -> None:
    user = hurried
    healthy = begun(user, until)
    time.sleep(GRACE_S * 3)
    standing = {f"tpuops-{name}-ada" for name in ("healthy", *ENDS)}
    assert standing | {"tpuops-healthy-ada-vm"} <= names(user)
    assert training(user, "healthy") == healthy
    kept = lease(user, "healthy")
    assert kept["keeper"]
    assert kept["age_s"] < kept["ttl_s"]

    for name, number in ENDS.items():
        end(user, name, number)
    until(lambda: names(user) == {"tpuops-healthy-ada", "tpuops-healthy-ada-vm"}, GRACE_S + MARGIN_S)
    state = user.run("status", "--env", "done")
    assert (state["run"]["state"], state["run"]["ended_as"]) == ("ended", "done")
    ends = told(user)
    again = ended(user, {"done": ("run", "--detach")})["done"][1]
    assert again["run_id"] != ends["done"]["run_id"]

    shutil.rmtree(user.state.parent / "local-tests" / "healthy")
    second = user.start("run", "--env", "healthy")
    until(lambda: bool(lease(user, "healthy")["token"]), 60)
    assert training(user, "healthy") == healthy
    end(user, "healthy", signal.SIGUSR1)
    _, err = second.communicate(timeout=90)
    assert second.returncode == 0, err.decode()
    assert b"run: join" in err
    assert b"waiting for the lease" not in err


def given_back(user: User, until: Callable[..., Any], *env: str) -> None:
    """Who is refused, and who stops following the run, leaves it to its machine again."""
    user.write(TRAINER + "# of a colleague")
    user.run("train", *env, code=7)
    assert lease(user, "kept")["keeper"]
    user.write(TRAINER)
    joined = user.start("train", *env)
    until(lambda: lease(user, "kept")["progress"].get("step"), 60)
    joined.send_signal(signal.SIGINT)
    joined.communicate(timeout=60)
    assert joined.returncode == 130
    kept = lease(user, "kept")
    assert (kept["token"], bool(kept["keeper"])) == ("", True)


def test_what_train_leaves_alone_stands_and_every_command_goes_on_from_there(
    hurried: User, until: Callable[..., Any]
) -> None:
    user, env = hurried, ("--env", "kept")
    user.run("up", *env)
    user.run("train", "--detach", *env)
    process = training(user, "kept")
    path = user.folder / "environments" / "kept.yaml"
    path.write_text(path.read_text().replace("tpu: {", "tpu: {labels: {team: vision}, "))
    ask(user, "POST", "/_cloud/faults", [{"on": {"method": "tpu.nodes.patch"}, "do": {"delay_s": 600}}])
    killed = user.start("up", *env)
    until(lambda: lease(user, "kept")["doing"] == "up", 30)
    kill(killed)
    until(lambda: not lease(user, "kept")["token"], GRACE_S + MARGIN_S)
    user.run("up", *env)
    assert lease(user, "kept")["keeper"]
    time.sleep(GRACE_S * 1.5)
    assert training(user, "kept") == process is not None

    given_back(user, until, *env)
    assert training(user, "kept") == process

    user.run("lock.break", "--yes", *env)
    assert lease(user, "kept") is None
    assert user.run("train", "--detach", *env)["attempts"] == 1
    assert training(user, "kept") == process

    end(user, "kept", signal.SIGUSR1)
    until(lambda: lease(user, "kept") is None, MARGIN_S)
    saved = ask(user, "GET", f"/storage/v1/b/{bucket(user)}/o?prefix=runs/")["items"]
    assert any(each["name"].endswith("/saved/outputs/begun-1.txt") for each in saved)
    assert "tpuops-kept-ada" in names(user)
    done = user.run("train", *env)
    assert (done["outcome"], done["attempts"]) == ("done", 1)

    user.run("train", "--detach", *env)
    stopped = user.run("stop", "--yes", *env)
    assert (stopped["outcome"], training(user, "kept")) == ("stopped", None)
    for reaper in processes(user, b"reaper."):
        os.kill(reaper, signal.SIGKILL)
    left = user.run("train", "--detach", *env, code=6)
    assert [each["name"] for each in left["remains"]] == ["tpuops-kept-ada"]
    assert training(user, "kept") is not None
    user.run("down", "--yes", *env)
    assert names(user) == set()
    assert user.run("status", *env)["run"]["ended_as"] == "stopped"
