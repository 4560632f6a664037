"""Provisioning and removal, judged by the cloud's own request log."""

from __future__ import annotations

import pytest

from tests.lifecycle.conftest import User

pytestmark = pytest.mark.wire


def mutations(user: User, after: int) -> list[str]:
    return [request["method"] for request in user.requests(after) if request["mutating"]]


def last(user: User) -> int:
    return max((request["n"] for request in user.requests()), default=0)


def test_up_makes_all_three_and_a_second_up_only_reads(user: User) -> None:
    document = user.run("up")
    assert {row["role"]: row["state"] for row in document["resources"]} == {
        "bucket": "present",
        "node": "READY",
        "vm": "RUNNING",
    }
    made = [method for method in mutations(user, 0) if "objects" not in method]
    assert sorted(made) == ["compute.instances.insert", "storage.buckets.insert", "tpu.nodes.create"]
    assert made[0] == "storage.buckets.insert"
    mark = last(user)
    assert user.run("up")["changed"] == []
    assert len(user.requests(mark)) >= 3
    assert mutations(user, mark) == []


def test_down_removes_node_and_vm_and_a_second_down_has_nothing_to_do(user: User) -> None:
    user.run("up")
    document = user.run("down")
    assert len(document["removed"]) == 2
    assert document["remains"] == []
    assert [left["kind"] for left in document["kept"]] == ["bucket"]
    assert user.standing()["nodes"] == []
    assert user.standing()["instances"] == []
    mark = last(user)
    assert user.run("down")["removed"] == []
    assert mutations(user, mark) == []


def test_node_vm_and_bucket_stand_beside_each_other_and_carry_the_labels(user: User) -> None:
    user.run("up")
    creations = {request["method"]: request for request in user.requests() if request["mutating"]}
    assert "/zones/us-central1-a/" in creations["compute.instances.insert"]["path"]
    assert "/locations/us-central1-a/" in creations["tpu.nodes.create"]["path"]
    assert user.run("status")["resources"][0]["detail"] == "us-central1"


def test_plan_changes_nothing_not_even_a_bucket(user: User) -> None:
    document = user.run("plan")
    assert [change["verb"] for change in document["changes"]] == ["create", "create", "create"]
    assert mutations(user, 0) == []


def test_train_without_up_says_what_is_missing(user: User) -> None:
    document = user.run("train", code=1)
    assert "is not up" in document["error"]["message"]
    assert "up --env tiny" in document["error"]["hint"]
