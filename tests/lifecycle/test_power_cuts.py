"""A power cut at any moment leaves nothing on the controller's disk that a command stumbles over.

The operations on files of one real `run` are written down; every state of the disk that they may leave is made, and
`status`, `up` and `ssh` are given again. The cloud stands meanwhile as the whole run left it, which is harsher than as
it stood at that moment: a key that the disk lost is one that the machines know. Where the cut strikes between two
calls of the cloud is swept in test_wire_kills.py and in virtual time. CI tries a part that moves on each day;
TPUOPS_POWER_CUTS=all tries every state, TPUOPS_POWER_CUTS=3,7 those.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle import power
from tests.lifecycle.conftest import TRAINER, User
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(1800)]

RECORDER = Path(__file__).with_name("recorder.py")
DAILY = 2
NEW = (
    "env.new",
    "fresh",
    "--template",
    "digits",
    "--project",
    "my-project",
    "--accelerator",
    "v3-8",
    "--zone",
    "us-central1-a",
)
MAY_CHANGE = frozenset({"storage.objects.insert", "storage.objects.delete", "tpu.nodes.patch"}) | {
    "compute.instances.setMetadata"
}
"""What `up` may do where everything stands: take the lease, keep its record, and tell the machines a new key."""


def recorded(user: User, folder: Path, *words: str) -> list[dict[str, Any]]:
    """Run a command of the user's; what it did to files below `folder`, in its order."""
    record = user.folder / "operations"
    command = [sys.executable, "-P", str(RECORDER), str(record), str(folder), *words]
    done = subprocess.run(command, cwd=user.folder, env=user.env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in record.read_text().splitlines()]


def held(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def chosen(count: int) -> list[int]:
    """The numbers of today's states, of those that were asked for, or of all."""
    asked = os.environ.get("TPUOPS_POWER_CUTS", "")
    if asked:
        return list(range(count)) if asked == "all" else [int(each) for each in asked.split(",")]
    first = datetime.now(UTC).date().toordinal() * DAILY
    return sorted({(first + each) % count for each in range(DAILY)})


def restored(folder: Path, state: power.State) -> None:
    """The disk as the cut left it."""
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    for name, data in state.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(data)


def wrong(user: User) -> list[str]:
    """What is not as it has to be when the commands are given again."""
    before, seen = user.standing(), max(request["n"] for request in user.requests())
    found = []
    for words in (("status", "--json"), ("up", "--json"), ("ssh", "--command", "true")):
        process = user.start(*words)
        out, err = process.communicate(timeout=90)
        if process.returncode or b"Traceback" in err:
            found.append(f"{words[0]} ended with {process.returncode}: {(out + err).decode()[-500:]}")
    after, changed = user.standing(), {each["method"] for each in user.requests(seen) if each["mutating"]}
    if any(after[kind] != before[kind] for kind in ("nodes", "instances", "buckets")):
        found.append(f"there stand {after}, not {before}")
    return found + [f"{method} was called" for method in sorted(changed - MAY_CHANGE)]


def test_from_whatever_a_power_cut_leaves_the_next_command_goes_on(
    user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    user.write(TRAINER, success="keep")
    user.run("cloud.start")
    folder = Path(user.env["TPUOPS_STATE"]) / "local-tests"
    ops = recorded(user, folder, "run")
    disk = power.Disk()
    for op in ops:
        disk.apply(op)
    assert {name: file.data for name, file in disk.names.items()} == held(folder), "something wrote unheard"
    assert {Path(name).suffix for name in disk.names} == {"", ".jsonl", ".host_keys"}
    assert power.unsettled(ops) == {}
    states = power.states(ops)
    broken = []
    for number in chosen(len(states)):
        restored(folder, states[number])
        found = wrong(user)
        broken += [f"{number} {sorted(states[number])}: {'; '.join(found)}"] * bool(found)
    with capsys.disabled():
        print(f"\n{len(chosen(len(states)))} of {len(states)} states after a power cut, {len(broken)} wrong", end=" ")
    assert not broken, "\n".join(broken)
    assert user.run("up")["changed"] == []
    user.run("down")
    assert (user.standing()["nodes"], user.standing()["instances"]) == ([], [])


def test_a_new_environment_is_on_the_disk_when_it_is_said_to_be(user: User) -> None:
    ops = recorded(user, user.folder, *NEW)
    assert power.unsettled(ops) == {}
    assert {"environments/fresh.yaml", "fresh/train.py"} <= held(user.folder).keys()


@pytest.mark.parametrize("spoil", [lambda whole: b"", lambda whole: whole[: len(whole) // 2], lambda whole: whole])
def test_an_embedded_cloud_that_lost_power_starts_with_what_it_held(
    user: User, spoil: Callable[[bytes], bytes]
) -> None:
    user.run("cloud.start")
    stage = embedded.status(user.state)
    assert stage is not None
    endpoint = user.state / "endpoint.json"
    embedded.ask(stage, "POST", "/storage/v1/b?project=local-tests", b'{"name": "bkt"}')
    whole = endpoint.read_bytes()
    os.kill(stage.pid, 9)
    endpoint.write_bytes(spoil(whole))
    endpoint.with_name("endpoint.json.new").write_bytes(whole[:9])
    user.run("cloud.start")
    assert user.standing()["buckets"] == ["bkt"]
