"""What workers say becomes rows, a verdict and a fix: pure, over values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tpuops.diagnosis import decide
from tpuops.diagnosis.verdict import Action, Budgets, Move, Shape
from tpuops.lifecycle.preflight import document
from tpuops.remote.readiness import Holder, Link, LockFile, Readiness, Space, Stored
from tpuops.report import preflight as report
from tpuops.stages.preflight import Row, Slice, State, blocking, judge, verdict

GB = 1 << 30
SINCE = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ABOUT = Slice("home-bucket", 1, "tpuops ssh --env tiny", "tpuops down --env tiny && tpuops up --env tiny")
WELL = Readiness(
    source="abc" * 20,
    device_files=4,
    disks=(Space("~", 40 * GB, 90 * GB, 1_000_000), Space("/dev/shm", 8 * GB, 16 * GB, -1)),
    clock_s=0.2,
    versions={"jax": "0.4.30", "libtpu": "0.1"},
)
STRANGER = Holder(812, "python3 other.py", "bob", SINCE, "", ("/dev/accel0",))


def rows(*workers: Any, about: Slice = ABOUT) -> tuple[Row, ...]:
    return judge(dict(enumerate(workers)), replace(about, workers=len(workers)))


def one(check: str, **changes: Any) -> Row:
    """The rows of that check for one worker that is otherwise well."""
    (found,) = [row for row in rows(replace(WELL, **changes)) if row.check == check]
    return found


def test_a_slice_that_is_well_is_one_line() -> None:
    for count in (1, 4):
        link = Link("", tuple(range(1, count)))
        found = rows(*[replace(WELL, link=link if count > 1 else None)] * count)
        assert {row.state for row in found} == {State.OK}
        assert blocking(found) is None
        assert report.said(document(found)) == f"preflight: {count} worker{'s' if count > 1 else ''} ready"


def test_everything_that_was_looked_at_is_in_the_whole_table() -> None:
    found = report.said(document(rows(*[replace(WELL, link=Link("", (1, 2)))] * 3)), whole=True)
    for check in ("reachable", "device", "disk", "clock", "bucket", "code", "versions", "ports"):
        assert sum(line.startswith("0-2") and f" {check} " in line for line in found.splitlines()) == 1


@pytest.mark.parametrize(
    ("check", "changes", "state", "failure_class", "fix"),
    [
        ("device", {"holders": (STRANGER,)}, State.BAD, "tpu_in_use", "--worker 0 --command 'sudo kill 812'"),
        ("device", {"holders": (replace(STRANGER, pid=0),)}, State.BAD, "tpu_in_use", "no run of tpuops"),
        ("device", {"holders": (replace(STRANGER, run="old"),)}, State.REPAIR, "", "ended before the start"),
        ("device", {"holders": (replace(STRANGER, run="r"),), "run_id": "r"}, State.REPAIR, "", "before the start"),
        ("device", {"holders": (replace(STRANGER, run="r"),), "run_id": "r", "alive": True}, State.OK, "", ""),
        ("device", {"device_files": 0}, State.NOTE, "", "tpuops up"),
        ("device", {"device_files": 0, "rehearsal": True}, State.OK, "", ""),
        ("device", {"hidden": True}, State.NOTE, "", ""),
        ("lock file", {"lock": LockFile("root", False)}, State.REPAIR, "", "removed before the start"),
        ("lock file", {"lock": LockFile("ada", True)}, State.OK, "", ""),
        ("disk", {"disks": (Space("~", 100 << 20, GB, 10**6),)}, State.BAD, "disk_full", "make room in ~"),
        ("disk", {"disks": (Space("~", 40 * GB, 90 * GB, 7),)}, State.BAD, "disk_full", "small files"),
        ("disk", {"disks": (Space("~", 9 * GB, 9 * GB, -1, "Read-only file system"),)}, State.BAD, "disk_full", "room"),
        ("disk", {"disks": (Space("/tmp", GB, 9 * GB, -1),)}, State.NOTE, "", "make room in /tmp"),
        ("disk", {"disks": (Space("/dev/shm", 1 << 20, GB, -1),)}, State.NOTE, "", "/dev/shm"),
        ("clock", {"clock_s": -301.0}, State.NOTE, "", "chrony"),
        ("bucket", {"stored": Stored({"write": "POST of o: 403 denied"})}, State.BAD, "gcs_permission", "objectAdmin"),
        ("bucket", {"stored": Stored({"remove": "DELETE: 403 denied"})}, State.BAD, "gcs_permission", "objectAdmin"),
        ("bucket", {"stored": Stored({"remove": "403 retention policy"})}, State.NOTE, "", "retention"),
        (
            "bucket",
            {"stored": Stored({"write": "403 insufficient authentication scopes"})},
            State.BAD,
            "insufficient_scopes",
            "tpuops down",
        ),
        ("bucket", {"stored": Stored({"read": "GET of o: timed out"})}, State.BAD, "gcs_transient", "tried again"),
        ("bucket", {"stored": Stored({"write": "404 not found"})}, State.BAD, "checkpoint_missing", "tpuops up"),
    ],
)
def test_each_fault_has_its_state_its_class_and_its_fix(
    check: str, changes: dict[str, Any], state: State, failure_class: str, fix: str
) -> None:
    row = one(check, **changes)
    assert (row.state, row.failure_class) == (state, failure_class), row
    assert fix in row.fix
    assert (blocking(rows(replace(WELL, **changes))) is not None) == (state is State.BAD)


def test_a_stranger_is_named_whole() -> None:
    row = one("device", holders=(STRANGER,))
    assert row.what == "held by process 812 of bob since 2026-11-20 12:00:00 UTC: python3 other.py (/dev/accel0)"


def test_the_service_account_stands_in_the_command_that_mends_the_bucket() -> None:
    stored = Stored({"write": "POST of o: 403 denied"}, "trainer@p.iam.gserviceaccount.com")
    row = one("bucket", stored=stored)
    assert row.fix == (
        "gcloud storage buckets add-iam-policy-binding gs://home-bucket"
        " --member=serviceAccount:trainer@p.iam.gserviceaccount.com --role=roles/storage.objectAdmin"
    )


@pytest.mark.parametrize(
    ("changes", "check", "what"),
    [
        ({"source": "f" * 60}, "code", "source ffffffffffff, where others have abcabcabcabc"),
        ({"source": ""}, "code", "source none, where others have"),
        ({"versions": {"jax": "0.4.31", "libtpu": "0.1"}}, "versions", "jax 0.4.31 (others 0.4.30)"),
        ({"versions": {"jax": "0.4.30"}}, "versions", "libtpu missing (others 0.1)"),
        ({"versions": {"jax": "0.4.30", "libtpu": "0.1", "torch": "2"}}, "versions", "torch 2 (others none)"),
        ({"link": Link("Connection refused", ())}, "ports", "cannot reach worker 0 on port 8482: Connection refused"),
        ({"link": None}, "ports", ""),
    ],
)
def test_the_worker_that_differs_is_the_one_that_is_named(changes: dict[str, Any], check: str, what: str) -> None:
    well = replace(WELL, link=Link("", (1, 2, 3)))
    found = rows(well, well, replace(well, **changes), well)
    wrong = [row for row in found if row.state is State.BAD]
    if not what:
        assert wrong == []
        return
    assert [(row.worker, row.check) for row in wrong] == [(2, check)]
    assert what in wrong[0].what and wrong[0].fix


def test_a_worker_that_was_never_heard_and_one_that_is_silent_are_told_apart() -> None:
    first = replace(WELL, link=Link("", (2,)))
    caller = replace(WELL, link=Link("", ()))
    found = [row for row in rows(first, caller, caller, "no connection within 20 s") if row.state is State.BAD]
    assert [(row.worker, row.check, row.failure_class) for row in found] == [
        (3, "reachable", "ssh_timeout"),
        (1, "ports", "network_config"),
    ]


def test_a_taken_port_is_told_of_the_first_worker() -> None:
    found = rows(replace(WELL, link=Link("Address already in use", (), port_taken=True)), WELL)
    row = next(row for row in found if row.state is State.BAD)
    assert (row.worker, row.what) == (0, "port 8482 is taken on it") and "ss -ltnp" in row.fix


def test_a_port_that_another_look_or_a_run_has_is_no_fault() -> None:
    shared = replace(WELL, link=Link("", (), shared=True))
    refused = replace(WELL, link=Link("Connection refused", ()))
    found = [row for row in rows(shared, shared, refused) if row.check == "ports"]
    assert {row.state for row in found} == {State.NOTE} and "another look" in found[0].what
    (late,) = [row for row in rows(replace(WELL, link=Link("", (1,))), WELL, shared) if row.state is not State.OK]
    assert (late.worker, late.state) == (2, State.NOTE)
    assert blocking(rows(replace(WELL, alive=True), refused)) is None


@pytest.mark.parametrize(
    ("stored", "move"),
    [("403 denied", Move.GIVE_UP), ("timed out", Move.RESTART), ("insufficient scopes", Move.GIVE_UP)],
)
def test_the_ladder_answers_a_fault_as_it_answers_one_in_training(stored: str, move: Move) -> None:
    fault = blocking(rows(replace(WELL, stored=Stored({"write": stored}))))
    assert fault is not None
    found = verdict(fault)
    assert found.action is not Action.NONE and "preflight, worker 0: bucket" in found.decisive_line
    assert decide(found, Shape(), (), Budgets(), step=-1).move is move


def test_faults_of_several_workers_are_one_row_and_counted() -> None:
    full = replace(WELL, disks=(Space("~", 0, GB, -1),))
    said = report.said(document(rows(full, full, WELL)))
    assert said.startswith("preflight: 2 of 3 workers not ready, 2 faults")
    assert sum("FAULT" in line for line in said.splitlines()) == 1 and "0, 1" in said


def test_repairs_are_said_in_the_line() -> None:
    said = report.said(document(rows(replace(WELL, holders=(replace(STRANGER, run="old"),)))))
    assert said.startswith("preflight: 1 worker ready, after 1 repair") and "left by run old" in said
