"""Machines as somebody asks Google for them, in its own words, with labels and metadata of a test's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.resources import Place

PLACE = Place("local-tests", "us-central1-a")
NODES = f"/v2/projects/{PLACE.project}/locations/{PLACE.zone}"
INSTANCES = f"/compute/v1/projects/{PLACE.project}/zones/{PLACE.zone}/instances"


def node(labels: Mapping[str, str], metadata: Mapping[str, str]) -> dict[str, Any]:
    """A TPU as it is asked for."""
    shape = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    return {**shape, "labels": dict(labels), "metadata": dict(metadata)}


def queued(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """A queued resource of one node of that name."""
    return {"tpu": {"nodeSpec": [{"parent": NODES[4:], "nodeId": name, "node": body}]}}


def instance(name: str, labels: Mapping[str, str], metadata: Mapping[str, str]) -> dict[str, Any]:
    """A VM as it is asked for."""
    image = "projects/debian-cloud/global/images/family/debian-12"
    return {
        "name": name,
        "machineType": f"zones/{PLACE.zone}/machineTypes/e2-small",
        "labels": labels,
        "metadata": {"items": [{"key": key, "value": value} for key, value in metadata.items()]},
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": image}}],
        "networkInterfaces": [{"network": f"projects/{PLACE.project}/global/networks/default"}],
        "serviceAccounts": [{"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
    }
