"""The file is edited while its run lives under a supervisor: labels wait for the lease, everything else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.conftest import TRAINER, User, kill, made_user
from tests.lifecycle.test_commands import done, supervised, supervisor
from tests.lifecycle.test_run import training as process_of
from tpuops import embedded

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

NODE = "/v2/projects/local-tests/locations/us-central1-a/nodes/tpuops-tiny-ada"
VM = "/compute/v1/projects/local-tests/zones/us-central1-a/instances/tpuops-tiny-ada-vm"
LABELS = (
    ("tpu-ubuntu2204-base}", "tpu-ubuntu2204-base, labels: {team: vision}}"),
    ("e2-small}", "e2-small, labels: {team: sight}}"),
)
REFUSED = [
    (
        ("tpu-ubuntu2204-base}", "tpu-ubuntu2204-base, provisioning: spot}"),
        7,
        "is open on what stands, and the file was changed",
    ),
    (("machine_type: e2-small", "machine_type: e2-medium"), 7, "is open on what stands, and the file was changed"),
    (("vm: {machine_type: e2-small}", "vm: none"), 7, "the file asks for no VM any more"),
    (("us-central1-a", "us-central1-b"), 2, "stands in us-central1-a (READY) and would stay there"),
]


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Ada, whose training lives under `train`."""
    made = made_user(tmp_path_factory.mktemp("edits"))
    try:
        made.write(TRAINER, steps="100000", pace="0.05")
        made.run("up")
        supervised(made, "train")
        yield made
    finally:
        made.end()


def file(user: User) -> Path:
    return user.folder / "environments/tiny.yaml"


def edited(user: User, *swaps: tuple[str, str]) -> None:
    """The file with pieces of it swapped."""
    text = file(user).read_text()
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    file(user).write_text(text)


def labels(user: User) -> list[Any]:
    stage = embedded.status(user.state)
    assert stage is not None
    return [embedded.ask(stage, "GET", path)["labels"].get("team") for path in (NODE, VM)]


def changes(user: User, mark: int) -> list[str]:
    """What was changed of machines since then."""
    seen = user.requests(mark)
    return [each["method"] for each in seen if each["mutating"] and each["service"] != "storage"]


@pytest.mark.parametrize(("edit", "code", "says"), REFUSED, ids=["another TPU", "another VM", "no VM", "moved"])
def test_what_would_pull_the_ground_away_is_refused_before_any_change(
    ada: User, edit: tuple[str, str], code: int, says: str
) -> None:
    whole, before, mark = file(ada).read_text(), process_of(ada), ada.requests()[-1]["n"]
    edited(ada, edit)
    try:
        for command in ("plan", "up"):
            error = ada.run(command, code=code)["error"]
            assert says in " ".join((error["message"], *error["evidence"])), error
            assert error["hint"] or code == 2
    finally:
        file(ada).write_text(whole)
    assert (changes(ada, mark), process_of(ada)) == ([], before)


def test_a_file_that_is_renamed_is_named_with_its_run(ada: User) -> None:
    before, mark = process_of(ada), ada.requests()[-1]["n"]
    renamed = file(ada).rename(file(ada).with_name("small.yaml"))
    try:
        refused = done(ada, "up", "--env", "small")
    finally:
        renamed.rename(file(ada))
    assert refused.returncode == 7, refused.stderr
    assert "is open on tpuops-tiny-ada" in refused.stderr
    assert "call it tiny.yaml again" in refused.stderr
    assert (changes(ada, mark), process_of(ada)) == ([], before)


def test_labels_wait_for_whoever_holds_the_lease_and_training_goes_on_under_them(ada: User) -> None:
    before, mark = process_of(ada), ada.requests()[-1]["n"]
    edited(ada, *LABELS)
    assert [row["verb"] for row in ada.run("plan")["changes"]] == ["keep", "change", "change"]
    held = ada.run("up", code=7)["error"]
    assert "ada on" in held["message"] and "train" in held["message"], held
    assert (changes(ada, mark), labels(ada)) == ([], [None, None])
    kill(supervisor(ada))
    ada.run("up")
    assert labels(ada) == ["vision", "sight"]
    assert process_of(ada) == before


def test_train_joins_over_a_difference_in_labels_and_carries_it_out(ada: User) -> None:
    before = process_of(ada)
    edited(ada, ("team: vision", "team: voice"))
    assert supervised_by_another(ada) == before
    assert labels(ada) == ["voice", "sight"]
    ada.run("stop", "--yes")
    ada.write(TRAINER, steps="5")
    edited(ada, ("tpu-ubuntu2204-base}", "tpu-ubuntu2204-base, labels: {team: touch}}"))
    mark = ada.requests()[-1]["n"]
    assert ada.run("train")["outcome"] == "done"
    assert labels(ada) == ["touch", "sight"]
    assert set(changes(ada, mark)) == {"tpu.nodes.patch"}


def supervised_by_another(user: User) -> int | None:
    """A second `train`, once it has joined; the training process then."""
    process = user.start("train")
    assert process.stderr is not None
    for line in process.stderr:
        if b"step=" in line:
            return process_of(user)
    raise AssertionError("it never joined")
