"""Google's own TPU client takes a queued resource through its life, and reads every reply without a field left over."""

import time

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1, tpu_v2
from google.protobuf import json_format

from tests.localcloud.talk import INSTANCES, NODES, ZONE

pytestmark = pytest.mark.wire
PARENT = "projects/local-tests/locations/us-central1-a"
STATE = tpu_v2.QueuedResourceState.State


@pytest.fixture
def tpu(shared_cloud):
    options = {"api_endpoint": shared_cloud.url}
    return tpu_v2.TpuClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)


def until(tpu, name, wanted):
    deadline = time.monotonic() + 20
    while (found := tpu.get_queued_resource(name=name).state.state) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_google_cloud_tpu_takes_a_queued_resource_through_its_life(shared_cloud, tpu):
    node = {"accelerator_type": "v3-8", "runtime_version": "tpu-ubuntu2204-base", "labels": {"a": "b"}}
    wanted = tpu_v2.QueuedResource(
        tpu={"node_spec": [{"parent": PARENT, "node_id": "n1", "node": node}]},
        spot={},
        queueing_policy={"valid_until_duration": {"seconds": 600}},
    )
    request = {"parent": PARENT, "queued_resource_id": "q1", "queued_resource": wanted}
    made = tpu.create_queued_resource(request=request).result(timeout=20)
    assert made.tpu.node_spec[0].node.labels == {"a": "b"}
    until(tpu, made.name, STATE.ACTIVE)
    ready = tpu.get_node(name=f"{PARENT}/nodes/n1")
    assert (ready.state, ready.queued_resource) == (tpu_v2.Node.State.READY, made.name)
    assert [found.name for found in tpu.list_queued_resources(parent=PARENT)] == [made.name]
    with pytest.raises(exceptions.BadRequest):
        tpu.delete_queued_resource(name=made.name)
    tpu.delete_node(name=ready.name).result(timeout=20)
    until(tpu, made.name, STATE.SUSPENDED)
    tpu.reset_queued_resource(name=made.name).result(timeout=20)
    until(tpu, made.name, STATE.ACTIVE)
    tpu.delete_queued_resource(request={"name": made.name, "force": True}).result(timeout=20)
    with pytest.raises(exceptions.NotFound):
        tpu.get_queued_resource(name=made.name)
    assert shared_cloud.status()["nodes"] == []
    identity = tpu.generate_service_identity(request={"parent": PARENT}).identity
    assert identity.email.endswith("@cloud-tpu.iam.gserviceaccount.com")


def test_every_field_of_a_reply_is_one_of_the_published_message(talk):
    talk.node("n1", networkConfig={"enableExternalIps": True}, labels={"a": "b"}, metadata={"k": "v"})
    spec = {"parent": f"{PARENT}".replace("local-tests", "local-p"), "nodeId": "n2"}
    spec["node"] = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
    made = talk.call("POST", f"{ZONE}/queuedResources", {"tpu": {"nodeSpec": [spec]}, "spot": {}}, queuedResourceId="q")
    talk.wait()
    tpu = {
        f"{NODES}/n1": tpu_v2.Node,
        NODES: tpu_v2.ListNodesResponse,
        f"{ZONE}/queuedResources/q": tpu_v2.QueuedResource,
        f"{ZONE}/queuedResources": tpu_v2.ListQueuedResourcesResponse,
        f"{ZONE}/acceleratorTypes": tpu_v2.ListAcceleratorTypesResponse,
        f"{ZONE}/runtimeVersions": tpu_v2.ListRuntimeVersionsResponse,
    }
    for path, message in tpu.items():
        json_format.ParseDict(talk.call("GET", path)[1], message.pb()(), ignore_unknown_fields=False)
    metadata = {key: value for key, value in made[1]["metadata"].items() if key != "@type"}
    json_format.ParseDict(metadata, tpu_v2.OperationMetadata.pb()(), ignore_unknown_fields=False)
    talk.vm("vm1", scheduling={"maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": "DELETE"})
    zone = INSTANCES.rpartition("/")[0]
    compute = {
        f"{INSTANCES}/vm1": compute_v1.Instance,
        INSTANCES: compute_v1.InstanceList,
        f"{zone}/operations": compute_v1.OperationList,
        f"{zone}/disks": compute_v1.DiskList,
        f"{zone}/machineTypes": compute_v1.MachineTypeList,
        zone: compute_v1.Zone,
        "/compute/v1/projects/local-p": compute_v1.Project,
        "/compute/v1/projects/local-p/global/networks": compute_v1.NetworkList,
        "/compute/v1/projects/debian-cloud/global/images": compute_v1.ImageList,
        "/compute/v1/projects/local-p/aggregated/instances": compute_v1.InstanceAggregatedList,
    }
    for path, message in compute.items():
        json_format.ParseDict(talk.call("GET", path)[1], message.pb()(), ignore_unknown_fields=False)
