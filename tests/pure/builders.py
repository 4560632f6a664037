"""Worlds as values: a desired environment and what may stand under its names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpuops.resources import Bucket, BucketSpec, Desired, Node, NodeSpec, Observed, Owned, Place, Vm, VmSpec, Worker

PLACE = Place("local-tests", "us-central1-a")
OWNED = Owned("tiny", "ada")
NUMBER = "123456"


def a_desired(*, vm: bool = True) -> Desired:
    node = NodeSpec("tpuops-tiny-ada", PLACE, "v3-8", "tpu-ubuntu2204-base", spot=False, labels=OWNED.labels)
    machine = VmSpec("tpuops-tiny-ada-vm", PLACE, "e2-small", "debian-12", 10, OWNED.labels)
    bucket = BucketSpec("tpuops-tiny-ada-0123abcd", PLACE.project, PLACE.region, OWNED.labels)
    return Desired(OWNED, node, machine if vm else None, bucket)


def a_node(state: str = "READY", **changes: Any) -> Node:
    node = Node(
        name="tpuops-tiny-ada",
        place=PLACE,
        id="1",
        state=state,
        health="HEALTHY",
        accelerator="v3-8",
        runtime="tpu-ubuntu2204-base",
        spot=False,
        labels=OWNED.labels,
        workers=(Worker(0, "10.0.0.2", "34.1.2.3"),),
    )
    return replace(node, **changes)


def a_vm(state: str = "RUNNING", **changes: Any) -> Vm:
    return replace(Vm("tpuops-tiny-ada-vm", PLACE, "2", state, "e2-small", OWNED.labels), **changes)


def a_bucket(**changes: Any) -> Bucket:
    return replace(Bucket("tpuops-tiny-ada-0123abcd", PLACE.region, NUMBER, OWNED.labels), **changes)


def an_observed(**changes: Any) -> Observed:
    return replace(Observed(a_node(), a_vm(), a_bucket(), NUMBER), **changes)
