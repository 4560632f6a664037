"""Every method of the TPU service: v2 by Google's library, v2alpha1 by the generated client that gcloud uses.

The library of v2alpha1 speaks gRPC alone, which the embedded cloud does not.
"""

from __future__ import annotations

import time
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2

from tests.cloud_fixture import LocalCloud
from tests.localcloud.every_method.compute import publish
from tests.localcloud.every_method.sdk import Sdk

PROJECT = "projects/local-tests"
ZONE = f"{PROJECT}/locations/us-central1-a"
RUNTIME = "tpu-ubuntu2204-base"
PATIENCE_S = 30.0


def call_all(cloud: LocalCloud) -> None:
    """Call all of v2."""
    client = tpu_v2.TpuClient(
        credentials=AnonymousCredentials(), transport="rest", client_options={"api_endpoint": cloud.url}
    )
    assert list(client.list_accelerator_types(parent=ZONE))
    client.get_accelerator_type(name=f"{ZONE}/acceleratorTypes/v3-8")
    assert list(client.list_runtime_versions(parent=ZONE))
    client.get_runtime_version(name=f"{ZONE}/runtimeVersions/{RUNTIME}")
    assert client.generate_service_identity(tpu_v2.GenerateServiceIdentityRequest(parent=ZONE)).identity.email
    assert client.list_locations({"name": PROJECT}).locations
    assert client.get_location({"name": ZONE}).location_id == "us-central1-a"
    _nodes(cloud, client)
    _queue(client)
    operations = client.list_operations({"name": ZONE}).operations
    client.cancel_operation({"name": operations[0].name})
    client.delete_operation({"name": operations[0].name})


def _nodes(cloud: LocalCloud, client: tpu_v2.TpuClient) -> None:
    name = f"{ZONE}/nodes/n1"
    node = tpu_v2.Node(accelerator_type="v3-8", runtime_version=RUNTIME)
    begun = client.create_node(parent=ZONE, node_id="n1", node=node)
    begun.result(timeout=PATIENCE_S)
    client.get_operation({"name": begun.operation.name})
    publish(cloud)
    client.get_guest_attributes(tpu_v2.GetGuestAttributesRequest(name=name))
    assert [each.name for each in client.list_nodes(parent=ZONE)] == [name]
    changed = tpu_v2.Node(name=name, tags=["t"])
    client.update_node(node=changed, update_mask={"paths": ["tags"]}).result(timeout=PATIENCE_S)
    client.stop_node(tpu_v2.StopNodeRequest(name=name)).result(timeout=PATIENCE_S)
    client.start_node(tpu_v2.StartNodeRequest(name=name)).result(timeout=PATIENCE_S)
    assert list(client.get_node(name=name).tags) == ["t"]
    client.delete_node(name=name).result(timeout=PATIENCE_S)


def _queue(client: tpu_v2.TpuClient) -> None:
    name = f"{ZONE}/queuedResources/q1"
    node = tpu_v2.Node(accelerator_type="v3-8", runtime_version=RUNTIME)
    spec = {"parent": ZONE, "node_id": "n2", "node": node}
    wanted = tpu_v2.QueuedResource(tpu={"node_spec": [spec]})
    client.create_queued_resource(parent=ZONE, queued_resource_id="q1", queued_resource=wanted).result(
        timeout=PATIENCE_S
    )
    _until(lambda: client.get_queued_resource(name=name).state.state.name == "ACTIVE")
    assert [each.name for each in client.list_queued_resources(parent=ZONE)] == [name]
    client.delete_node(name=f"{ZONE}/nodes/n2").result(timeout=PATIENCE_S)
    _until(lambda: client.get_queued_resource(name=name).state.state.name == "SUSPENDED")
    client.reset_queued_resource(tpu_v2.ResetQueuedResourceRequest(name=name)).result(timeout=PATIENCE_S)
    _until(lambda: client.get_queued_resource(name=name).state.state.name == "ACTIVE")
    client.delete_queued_resource(tpu_v2.DeleteQueuedResourceRequest(name=name, force=True)).result(timeout=PATIENCE_S)


def _until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def call_all_of_alpha(cloud: LocalCloud, sdk: Sdk) -> None:
    """Call all of v2alpha1."""

    def tpu(method: str, **request: Any) -> Any:
        return sdk("tpu/v2alpha1", f"projects_{method}", **request)

    def done(method: str, **request: Any) -> None:
        name = tpu(method, **request)["name"]
        _until(lambda: tpu("locations_operations.Get", name=name).get("done"))

    for kind, one in (("acceleratorTypes", "v3-8"), ("runtimeVersions", RUNTIME)):
        assert tpu(f"locations_{kind}.List", parent=ZONE)[kind]
        tpu(f"locations_{kind}.Get", name=f"{ZONE}/{kind}/{one}")
    assert tpu("locations.List", name=PROJECT)["locations"]
    assert tpu("locations.Get", name=ZONE)["locationId"] == "us-central1-a"
    assert tpu("locations.GenerateServiceIdentity", parent=ZONE, generateServiceIdentityRequest={})["identity"]
    assert tpu("locations_reservations.List", parent=ZONE) == {}
    _alpha_nodes(cloud, tpu, done)
    _alpha_queue(tpu, done)
    operation = tpu("locations_operations.List", name=ZONE)["operations"][0]["name"]
    tpu("locations_operations.Cancel", name=operation)
    tpu("locations_operations.Delete", name=operation)


def _alpha_nodes(cloud: LocalCloud, tpu: Any, done: Any) -> None:
    name = f"{ZONE}/nodes/n3"
    node = {"acceleratorType": "v3-8", "runtimeVersion": RUNTIME}
    done("locations_nodes.Create", parent=ZONE, nodeId="n3", node=node)
    publish(cloud)
    tpu("locations_nodes.GetGuestAttributes", name=name, getGuestAttributesRequest={})
    assert [each["name"] for each in tpu("locations_nodes.List", parent=ZONE)["nodes"]] == [name]
    done("locations_nodes.Patch", name=name, updateMask="tags", node={"tags": ["t"]})
    done("locations_nodes.PerformMaintenance", name=name, performMaintenanceRequest={})
    event = {"workerIds": ["0"]}
    done("locations_nodes.SimulateMaintenanceEvent", name=name, simulateMaintenanceEventRequest=event)
    done("locations_nodes.Stop", name=name, stopNodeRequest={})
    done("locations_nodes.Start", name=name, startNodeRequest={})
    assert tpu("locations_nodes.Get", name=name)["tags"] == ["t"]
    done("locations_nodes.Delete", name=name)


def _alpha_queue(tpu: Any, done: Any) -> None:
    name = f"{ZONE}/queuedResources/q2"
    spec = {"parent": ZONE, "nodeId": "n4", "node": {"acceleratorType": "v3-8", "runtimeVersion": RUNTIME}}
    wanted = {"tpu": {"nodeSpec": [spec]}}

    def state() -> Any:
        return tpu("locations_queuedResources.Get", name=name)["state"]["state"]

    done("locations_queuedResources.Create", parent=ZONE, queuedResourceId="q2", queuedResource=wanted)
    _until(lambda: state() == "ACTIVE")
    assert [each["name"] for each in tpu("locations_queuedResources.List", parent=ZONE)["queuedResources"]] == [name]
    nodes = {"nodeNames": ["n4"]}
    done(
        "locations_queuedResources.PerformMaintenanceQueuedResource",
        name=name,
        performMaintenanceQueuedResourceRequest=nodes,
    )
    done("locations_nodes.Delete", name=f"{ZONE}/nodes/n4")
    _until(lambda: state() == "SUSPENDED")
    done("locations_queuedResources.Reset", name=name, resetQueuedResourceRequest={})
    _until(lambda: state() == "ACTIVE")
    done("locations_queuedResources.Delete", name=name, force=True)
