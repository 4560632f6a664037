"""Preflight before a real start, on the embedded cloud: what it says, stops and repairs, and whom it spares."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lifecycle.conftest import TRAINER, User, made_user
from tests.lifecycle.test_commands import supervised
from tests.lifecycle.test_run import training as process_of
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

HOLDER = (
    "import fcntl, time; f = open('/tmp/libtpu_lockfile', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
    "print('held', flush=True); time.sleep(600)"
)

HOLDING = """
import fcntl, time
lock = open("/tmp/libtpu_lockfile", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
for step in range(100000):
    print(f"step={step} loss=1", flush=True)
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Ada, whose environment is up."""
    made = made_user(tmp_path_factory.mktemp("preflight"))
    made.write(TRAINER, steps="20", pace="0.02")
    made.run("up")
    yield made
    made.end()


def typed(user: User, *words: str) -> subprocess.CompletedProcess[str]:
    process = user.start(*words)
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(words, process.returncode, out.decode(), err.decode())


def on_machine(user: User, line: str, *words: str) -> str:
    done = typed(user, "ssh", *words, "--command", line)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ask(user: User, verb: str, path: str, document: Any = None) -> Any:
    stage = embedded.status(user.state)
    assert stage is not None
    return embedded.ask(stage, verb, path, json.dumps(document).encode())


def test_a_good_start_is_one_line_and_with_v_a_whole_table(ada: User) -> None:
    done = typed(ada, "train")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "preflight" in line] == ["preflight: 1 worker ready"]
    more = typed(ada, "train", "-v")
    table = more.stderr[more.stderr.index("preflight: 1 worker ready") :]
    for check, words in (("device", "free"), ("disk", "free"), ("clock", "right"), ("bucket", "own identity")):
        assert re.search(rf"^0 +{check} +ok +.*{words}", table, re.MULTILINE), table
    assert re.search(r"versions +ok +.*jax \d.*python 3", table)
    document = ada.run("train")
    assert {row["state"] for row in document["preflight"]} == {"ok"}


def test_a_strangers_process_is_named_and_spared_and_training_waits_for_a_person(ada: User) -> None:
    on_machine(
        ada, f'setsid python3 -c "{HOLDER}" >/tmp/held 2>&1 </dev/null & sleep 0.1; until test -s /tmp/held; do :; done'
    )
    pid = int(on_machine(ada, "pgrep -f 'fcntl.LOCK_E[X]'"))
    done = typed(ada, "train")
    assert done.returncode == 7, done.stderr
    said = done.stderr
    assert re.search(rf"in use: worker 0: held by process {pid} of \S+ since .* UTC: python3 -c import fcntl", said)
    assert f"--worker 0 --command 'sudo kill {pid}'" in said
    assert "1 of 1 worker not ready, 1 fault" in said
    assert int(on_machine(ada, "pgrep -f 'fcntl.LOCK_E[X]'")) == pid
    assert ada.run("status")["resources"][1]["state"] == "READY"
    on_machine(ada, f"kill {pid}")
    assert ada.run("train")["outcome"] == "done"


def test_what_an_earlier_program_left_on_the_device_is_ended_and_said(ada: User) -> None:
    """The fault kills the program and leaves a child of it with the accelerator; the next start clears it.

    Its step is one that no earlier log on the machine has.
    """
    ada.write(TRAINER, steps="80", pace="0.05")
    fault = {"on": {"step": 30}, "do": {"device_held": "train.py"}}
    ask(
        ada,
        "POST",
        "/_cloud/faults",
        {"progress": {"file": "**/train.log", "pattern": r"step=(\d+)"}, "faults": [fault]},
    )
    done = typed(ada, "train", "--yes")
    assert done.returncode == 0, done.stderr
    assert re.search(r"preflight: 1 worker ready, after 1 repair", done.stderr), done.stderr
    assert "left by run" in done.stderr and "-> ended before the start" in done.stderr
    ada.write(TRAINER, steps="20", pace="0.02")


def test_a_machine_that_may_not_write_to_the_bucket_does_not_train(ada: User) -> None:
    """Its own identity is asked, not ours: exit 3 with the very command that mends it, and nothing was trained."""
    owner, machines = "ada@example.com", "909171607979-compute@developer.gserviceaccount.com"
    bindings = {owner: ["roles/owner"], machines: ["roles/viewer"]}
    anybody = {"email": owner, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
    ask(ada, "POST", "/_cloud/access", {"enforce": True, "bindings": bindings, "anonymous": anybody})
    try:
        done = typed(ada, "train")
    finally:
        ask(ada, "POST", "/_cloud/access", {"enforce": False})
    assert done.returncode == 3, done.stderr
    said = done.stderr + done.stdout
    assert "FAULT" in said and "cannot write in gs://tpuops-tiny-ada-" in said
    assert f"--member=serviceAccount:{machines} --role=roles/storage.objectAdmin" in said.replace("\n", "")
    assert "training: run" not in said
    assert ada.run("train")["outcome"] == "done"


def test_a_run_that_lives_is_looked_at_by_doctor_and_goes_on(ada: User) -> None:
    ada.write(HOLDING, steps="100000", pace="0.05")
    before = supervised(ada, "train")
    findings = ada.run("doctor", "--fix", "--yes")["findings"]
    machines = next(row for row in findings if row["check"] == "machines")
    assert (machines["state"], machines["what"]) == ("ok", "1 worker of tpuops-tiny-ada ready")
    assert process_of(ada) == before
    ada.run("stop", "--yes")


def test_a_full_disk_is_told_before_anything_is_started(ada: User) -> None:
    ask(ada, "POST", "/_cloud/faults", [{"on": {"after_s": 0}, "do": {"disk_full": {"for_s": 60}}}])
    done = typed(ada, "train")
    assert done.returncode == 10, done.stderr
    said = done.stderr + done.stdout
    assert "cannot be written to: No space left on device" in said
    assert "-> make room in ~" in said
    assert "training: run" not in said
