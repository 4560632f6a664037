"""What may go wrong on the person's own machine while a run is under way: as processes, over the wire.

No result is lost, nothing is deleted wrongly, no traceback is shown, and the next command goes on. The faults strike
several runs of one embedded cloud at once, so that it takes no longer than one.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.lifecycle.conftest import ENVIRONMENT, TRAINER, User, kill
from tests.lifecycle.test_reapers import Way, through
from tests.lifecycle.test_run import training
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(400)]

JUMPING = """
import datetime, sys, time
from tpuops.program import main
began, real, kind = time.monotonic(), time.time, datetime.datetime

def jumped():
    return {skew_s} if time.monotonic() - began > 3 else 0

class Jumping(kind):
    @classmethod
    def now(cls, tz=None):
        return kind.now(tz) + datetime.timedelta(seconds=jumped())

time.time, datetime.datetime = (lambda: real() + jumped()), Jumping
import tpuops.clock
tpuops.clock.datetime = Jumping
sys.argv = ["tpuops", *{words!r}]
sys.exit(main())
"""
"""The command on a machine whose wall clock jumps while it runs."""


def written(user: User, name: str, steps: str = "150") -> None:
    """One more environment, without a VM."""
    text = ENVIRONMENT.replace("{machine_type: e2-small}", "none").replace("<steps>", steps).replace("<pace>", "0.02")
    text = text.replace("<success>", "delete").replace("<failure>", "delete").replace("<interrupt>", "keep")
    (user.folder / "environments" / f"{name}.yaml").write_text(text)


def begun(user: User, command: list[str], **how: Any) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, cwd=user.folder, env=user.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, **how,
    )  # fmt: skip
    user.started.append(process)
    return process


def closed_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def full() -> None:
    """Files of this process may not grow: every write fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def read_only(user: User, *command: str) -> list[str]:
    """The command where its home and its state folder cannot be written."""
    homes = [part for folder in (user.env["HOME"], user.env["TPUOPS_STATE"]) for part in ("--ro-bind", folder, folder)]
    return ["bwrap", "--dev-bind", "/", "/", *homes, *command]


def test_a_run_survives_what_happens_to_the_machine_it_is_watched_from(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER)
    user.run("cloud.start")
    tpuops = str(user.program)
    for name in ("full", "unwritable", "readonly", "ahead", "behind", "hangup"):
        written(user, name, "2000" if name == "hangup" else "150")
    state = Path(user.env["TPUOPS_STATE"]) / "local-tests"
    for name in ("full", "unwritable", "readonly"):
        user.run("plan", "--env", name)  # which makes the key
    (state / "unwritable" / "journal").write_text("a file where a folder has to be")

    runs = {
        "full": begun(user, [tpuops, "run", "--env", "full", "--json"], preexec_fn=full),
        "unwritable": begun(user, [tpuops, "run", "--env", "unwritable", "--json"]),
        "readonly": begun(user, read_only(user, tpuops, "run", "--env", "readonly", "--json")),
        "hangup": begun(user, [tpuops, "run", "--env", "hangup"]),
    }
    for name, skew_s in (("ahead", 3600), ("behind", -3600)):
        words = ["run", "--env", name, "--json"]
        runs[name] = begun(user, [sys.executable, "-c", JUMPING.format(skew_s=skew_s, words=words)])
    spool = state / "hangup" / "journal"
    until(lambda: any(b"train.stepping" in path.read_bytes() for path in spool.glob("*-run.jsonl")), 90)
    runs["hangup"].send_signal(signal.SIGHUP)

    for name, process in runs.items():
        out, err = process.communicate(timeout=120)
        assert b"Traceback" not in err, f"{name}: {err.decode()}"
        if name == "hangup":
            assert process.returncode == 143, err.decode()
            continue
        assert process.returncode == 0, f"{name}: {err.decode()}"
        document = json.loads(out)
        assert (document["outcome"], document["attempts"], document["remains"]) == ("done", 1, []), name
        assert any(saved["name"].endswith("outputs/model.txt") for saved in document["saved"]), name
        assert (b"no journal is kept on this machine" in err) == (name in {"full", "unwritable", "readonly"}), (
            err.decode()
        )
    assert [node["name"].rpartition("/")[2] for node in user.standing()["nodes"]] == ["tpuops-hangup-ada"]
    again = user.run("run", "--env", "hangup")
    assert (again["outcome"], again["attempts"]) == ("done", 1)


def test_where_no_key_can_be_made_that_is_said_and_nothing_is_begun(user: User) -> None:
    user.run("cloud.start")
    before = len(user.requests())
    for how in ({"preexec_fn": full}, {}):
        command = [str(user.program), "run"] if how else read_only(user, str(user.program), "run")
        process = begun(user, command, **how)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, b""), err.decode()
        assert b"error: no key can be made in" in err and b"set TPUOPS_STATE to a folder" in err, err.decode()
    assert len(user.requests()) == before


OFFLINE = {"status": 5, "plan": 5, "up": 5, "train": 5, "run": 5, "stop": 5, "lock.show": 5, "down": 6}
"""By command: its exit code where there is no network. What `down` should remove may go on billing."""


def test_without_a_network_each_command_says_so_and_one_that_comes_back_in_time_is_used(
    user: User, until: Callable[..., Any]
) -> None:
    user.run("up")
    stage, seen = embedded.status(user.state), len(user.requests())
    assert stage is not None
    with through(user, nowhere := closed_port()):
        commands = {verb: user.start(verb, "--json") for verb in OFFLINE}
        ends = {verb: (*process.communicate(timeout=120), process.returncode) for verb, process in commands.items()}
        late = user.start("run", "--json")
        time.sleep(2.5)
        way = Way(urlsplit(stage.url).port or 0, nowhere)
        out, err = late.communicate(timeout=90)
        way.cut()
    for verb, (said, told, code) in ends.items():
        document = json.loads(said)
        assert code == document["exit_code"] == OFFLINE[verb], f"{verb}: {told.decode()}"
        assert b"Traceback" not in told and b"no answer from 127.0.0.1: Connection refused" in told, told.decode()
        if verb == "down":
            assert [left["command"].split()[:5] for left in document["remains"]] == [
                ["gcloud", "compute", "tpus", "tpu-vm", "delete"],
                ["gcloud", "compute", "instances", "delete", "tpuops-tiny-ada-vm"],
            ]
        else:
            assert "look at this machine's network" in document["error"]["hint"]
    assert late.returncode == 0, err.decode()
    assert json.loads(out)["outcome"] == "done"
    made = [request["method"] for request in user.requests()[seen:] if request["mutating"]]
    assert "tpu.nodes.create" not in made and made.count("tpu.nodes.delete") == 1


def test_whatever_is_spoilt_in_the_local_folder_a_run_is_found_again(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="1500", pace="0.02")
    first = user.start("run")
    before = until(lambda: training(user), 60)
    until(lambda: [request for request in user.requests() if "run.json" in request["path"]])
    kill(first)
    folder = Path(user.env["TPUOPS_STATE"]) / "local-tests" / "tiny"
    key = folder / "id_ed25519"
    others = [path for path in folder.rglob("*") if path.is_file() and path != key]
    assert {path.suffix for path in others} == {".jsonl", ".host_keys"}
    for path in others:
        path.write_bytes(b"\x00\xff half a line")
    whole = key.read_bytes()
    for spoilt in (b"", whole[: len(whole) // 2], b"\x00\xff"):
        key.write_bytes(spoilt)
        refused = user.run("run", code=3)["error"]
        assert "cannot be read as a key" in refused["message"]
        assert refused["hint"] == f"move {key} aside"
    assert training(user) == before
    key.rename(key.with_name("aside"))
    document = user.run("run")
    assert (document["outcome"], document["attempts"], document["remains"]) == ("done", 1, [])
    assert len([request for request in user.requests() if request["method"] == "tpu.nodes.create"]) == 1


def test_an_end_that_nobody_saw_is_shown_once_and_not_paid_for_twice(user: User) -> None:
    first = user.run("run")
    stage = embedded.status(user.state)
    assert stage is not None
    bucket = next(left["name"] for left in first["kept"] if left["kind"] == "bucket")
    told = f"/storage/v1/b/{bucket}/o/tpuops%2Ftiny%2Ftold.json"
    assert embedded.ask(stage, "GET", told)["name"] == "tpuops/tiny/told.json", "the end was shown, and nobody noted it"
    removed = urllib.request.Request(stage.url + told, method="DELETE")  # as if it had been killed a moment before
    urllib.request.urlopen(removed, timeout=20).close()
    second = user.start("run", "--json")
    out, err = second.communicate(timeout=90)
    assert second.returncode == 0, err.decode()
    assert b"nobody was told" in err, err.decode()
    document = json.loads(out)
    assert (document["run_id"], document["outcome"], document["remains"]) == (first["run_id"], "done", [])
    made = [request for request in user.requests() if request["method"] == "tpu.nodes.create"]
    assert len(made) == 1, "the same training was paid for twice"
    assert embedded.ask(stage, "GET", told)["name"] == "tpuops/tiny/told.json"
