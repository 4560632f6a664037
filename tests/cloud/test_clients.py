"""Google's TPU and compute clients against canned replies: what is sent, understood, and done about a lost reply."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.cloud.conftest import LOSE
from tests.cloud.documents import BUCKET, INSTANCE, LABELS, NODE, NODE_PATH, OPERATION, PLACE, TAKEN, spec, vm_spec
from tpuops.cloud.port import Operation
from tpuops.errors import AccessError, Conflict, NoCapacity, QuotaExceeded, Transient
from tpuops.resources import Worker


async def test_a_node_is_read_with_workers_and_times(canned, cloud):
    canned.say(f"GET /v2/{NODE_PATH}", (200, NODE))
    found = await cloud.node(PLACE, "n")
    assert found.workers == (Worker(0, "10.0.0.2", "34.1.2.3"),)
    assert (found.name, found.id, found.state, found.health, found.spot) == (
        "n",
        "7420000000000000001",
        "READY",
        "HEALTHY",
        True,
    )
    assert found.created == datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
    assert found.labels == LABELS


async def test_a_state_that_the_library_does_not_know_does_not_break_reading(canned, cloud):
    canned.say(f"GET /v2/{NODE_PATH}", (200, {**NODE, "state": "LEVITATING", "health": 99}))
    found = await cloud.node(PLACE, "n")
    assert found.state == "STATE_UNSPECIFIED"
    assert found.health == "UNKNOWN_99"


async def test_what_is_not_there_is_none(canned, cloud):
    assert await cloud.node(PLACE, "n") is None
    assert await cloud.vm(PLACE, "n-vm") is None
    assert await cloud.bucket("b") is None
    assert await cloud.store("b").read("x") is None
    assert await cloud.delete_node(PLACE, "n") is None
    assert await cloud.delete_vm(PLACE, "n-vm") is None


async def test_every_call_is_told_with_its_code(canned, cloud, calls):
    canned.say("GET /storage/v1/b/b", (200, BUCKET))
    await cloud.node(PLACE, "n")
    await cloud.bucket("b")
    assert [(call.method, call.resource, call.code) for call in calls] == [
        ("tpu.nodes.get", NODE_PATH, 404),
        ("storage.buckets.get", "b", 200),
    ]
    assert all(call.ms > 0 for call in calls)


async def test_creating_a_node_sends_its_type_labels_and_metadata(canned, cloud):
    canned.say("POST /nodes", (200, OPERATION))
    operation = await cloud.create_node(spec())
    assert operation == Operation("tpu", OPERATION["name"], "create", NODE_PATH, PLACE)
    (request,) = canned.seen
    body = json.loads(request.body)
    assert "nodeId=n" in request.query
    assert body["acceleratorType"] == "v3-8"
    assert body["labels"] == LABELS
    assert body["metadata"] == {"ssh-keys": "ann:x y"}
    assert "schedulingConfig" not in body


async def test_a_name_taken_before_is_a_conflict(canned, cloud):
    canned.say("POST /nodes", (409, TAKEN))
    with pytest.raises(Conflict):
        await cloud.create_node(spec())
    assert len(canned.seen) == 1


@pytest.mark.usefixtures("quick")
async def test_a_creation_whose_reply_was_lost_is_found_and_not_made_again(canned, cloud):
    canned.say("POST /nodes", LOSE)
    canned.say(f"GET /v2/{NODE_PATH}", (200, {**NODE, "state": "CREATING"}), (200, NODE))
    operation = await cloud.create_node(spec())
    await cloud.wait(operation, 5)
    assert canned.asked("POST", "/nodes") == 1


@pytest.mark.usefixtures("quick")
async def test_a_creation_that_never_arrived_is_made_again(canned, cloud):
    canned.say("POST /nodes", LOSE, (200, OPERATION))
    operation = await cloud.create_node(spec())
    assert operation.name == OPERATION["name"]
    assert canned.asked("POST", "/nodes") == 2


@pytest.mark.usefixtures("quick")
async def test_a_creation_that_became_visible_late_is_ours_by_its_labels(canned, cloud):
    canned.say("POST /nodes", LOSE, (409, TAKEN))
    canned.say(f"GET /v2/{NODE_PATH}", (404, {"error": {"code": 404}}), (200, NODE))
    assert (await cloud.create_node(spec())).name == ""


@pytest.mark.usefixtures("quick")
async def test_after_a_lost_reply_somebody_elses_node_is_not_ours(canned, cloud):
    canned.say("POST /nodes", LOSE)
    canned.say(f"GET /v2/{NODE_PATH}", (200, {**NODE, "labels": {"owner": "bob"}}))
    with pytest.raises(Conflict, match="not ours"):
        await cloud.create_node(spec())


@pytest.mark.usefixtures("quick")
async def test_a_passing_fault_is_asked_again_a_bounded_number_of_times(canned, cloud, calls):
    canned.say(f"GET /v2/{NODE_PATH}", (503, {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}))
    with pytest.raises(Transient):
        await cloud.node(PLACE, "n")
    assert len(canned.seen) == len(calls) == 6


async def test_a_late_stockout_is_no_capacity_and_a_late_quota_is_not(canned, cloud):
    text = 'There is no more capacity in the zone "us-central1-c"; you can try in another zone [EID: 0x9f48947a7d57c8d]'
    failed = {**OPERATION, "done": True, "error": {"code": 8, "message": text}}
    canned.say("GET /operations/", (200, OPERATION), (200, failed))
    operation = Operation("tpu", OPERATION["name"], "create", NODE_PATH, PLACE)
    with pytest.raises(NoCapacity) as raised:
        await cloud.wait(operation, 10)
    assert "EID" not in raised.value.message
    assert raised.value.method == "tpu.nodes.create"


async def test_an_operation_that_google_forgot_is_judged_by_its_node(canned, cloud):
    canned.say(f"GET /v2/{NODE_PATH}", (200, NODE))
    await cloud.wait(Operation("tpu", OPERATION["name"], "create", NODE_PATH, PLACE), 5)
    with pytest.raises(NoCapacity, match="taken away"):
        await cloud.wait(Operation("tpu", OPERATION["name"], "create", "x/nodes/absent", PLACE), 5)
    await cloud.wait(Operation("tpu", OPERATION["name"], "delete", "x/nodes/absent", PLACE), 5)


async def test_waiting_ends_with_a_transient_when_time_is_up(canned, cloud):
    canned.say("GET /operations/", (200, OPERATION))
    with pytest.raises(Transient, match="still under way"):
        await cloud.wait(Operation("tpu", OPERATION["name"], "stop", NODE_PATH, PLACE), 0.3)


@pytest.mark.usefixtures("quick")
async def test_a_look_that_fails_says_nothing_of_the_operation(canned, cloud):
    down = (503, {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}})
    canned.say("GET /operations/", *[down] * 8, (200, {**OPERATION, "done": True, "response": {}}))
    await cloud.wait(Operation("tpu", OPERATION["name"], "stop", NODE_PATH, PLACE), 10)


async def test_a_compute_wait_that_returns_at_once_is_not_hammered(canned, cloud):
    canned.say("POST /operations/op-1/wait", (200, {"name": "op-1", "status": "RUNNING"}))
    with pytest.raises(Transient):
        await cloud.wait(Operation("compute", "op-1", "create", "projects/p/zones/z/instances/n-vm", PLACE), 1.0)
    assert len(canned.seen) <= 6


async def test_quota_is_told_from_stockout_and_never_asked_again(canned, cloud):
    quota = {
        "error": {
            "code": 429,
            "message": "Quota limit 'TPUV3sPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone z.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}],
        }
    }
    canned.say("POST /nodes", (429, quota))
    with pytest.raises(QuotaExceeded) as raised:
        await cloud.create_node(spec())
    assert raised.value.exit_code == 4
    assert len(canned.seen) == 1


async def test_host_keys_come_from_guest_attributes_of_one_worker(canned, cloud):
    items = [
        {"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAA"},
        {"namespace": "other", "key": "x", "value": "y"},
    ]
    canned.say("POST :getGuestAttributes", (200, {"guestAttributes": [{"queryValue": {"items": items}}]}))
    assert await cloud.host_keys(PLACE, "n", 0) == ("ssh-ed25519 AAAA",)
    assert json.loads(canned.seen[0].body)["workerIds"] == ["0"]
    canned.say("POST :getGuestAttributes", (200, {}))
    assert await cloud.host_keys(PLACE, "n", 0) == ()


async def test_an_instance_is_read_and_made_with_an_end_of_its_own(canned, cloud):
    canned.say("GET /compute/v1/projects/my-project/zones/us-central1-a/instances/n-vm", (200, INSTANCE))
    found = await cloud.vm(PLACE, "n-vm")
    assert (found.machine_type, found.external_ip, found.state) == ("e2-small", "34.1.2.4", "RUNNING")
    assert found.created == datetime(2026, 11, 20, 12, tzinfo=UTC)
    canned.say("POST /instances", (200, {"name": "op-1", "status": "RUNNING"}))
    operation = await cloud.create_vm(vm_spec())
    assert operation.name == "op-1"
    body = json.loads(canned.seen[-1].body)
    assert body["scheduling"] == {"terminationTime": "2026-12-01T00:00:00Z", "instanceTerminationAction": "DELETE"}
    assert body["serviceAccounts"][0]["scopes"] == ["https://www.googleapis.com/auth/cloud-platform"]
    assert body["disks"][0]["initializeParams"]["sourceImage"] == "projects/d/global/images/family/f"
    assert "requestId=" in canned.seen[-1].query


@pytest.mark.usefixtures("quick")
async def test_a_lost_instance_insertion_is_asked_again_with_the_same_request_id(canned, cloud):
    canned.say("POST /instances", LOSE, (200, {"name": "op-1", "status": "RUNNING"}))
    await cloud.create_vm(vm_spec())
    ids = {seen.query for seen in canned.seen if seen.verb == "POST"}
    assert canned.asked("POST", "/instances") == 2
    assert len(ids) == 1


async def test_a_failed_instance_operation_is_http_200_and_still_a_failure(canned, cloud):
    failed = {
        "name": "op-1",
        "status": "DONE",
        "httpErrorStatusCode": 503,
        "httpErrorMessage": "SERVICE UNAVAILABLE",
        "error": {
            "errors": [
                {
                    "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
                    "message": "A e2-small VM instance is currently unavailable in the z zone.",
                }
            ]
        },
    }
    canned.say("POST /operations/op-1/wait", (200, {"name": "op-1", "status": "RUNNING"}), (200, failed))
    with pytest.raises(NoCapacity):
        await cloud.wait(Operation("compute", "op-1", "create", "projects/p/zones/z/instances/n-vm", PLACE), 5)
    canned.say("POST /operations/op-1/wait", (200, {"name": "op-1", "status": "DONE"}))
    await cloud.wait(Operation("compute", "op-1", "create", "projects/p/zones/z/instances/n-vm", PLACE), 5)


async def test_the_project_number_is_the_compute_projects_id(canned, cloud):
    canned.say("GET /compute/v1/projects/my-project", (200, {"id": "1234", "name": "my-project"}))
    assert await cloud.project_number("my-project") == "1234"


@pytest.mark.usefixtures("quick")
@pytest.mark.usefixtures("quick")
@pytest.mark.usefixtures("quick")
async def test_a_missing_permission_names_itself_and_exits_3(canned, cloud):
    text = f"Permission 'tpu.nodes.create' denied on '{NODE_PATH}'"
    canned.say("POST /nodes", (403, {"error": {"code": 403, "message": text, "status": "PERMISSION_DENIED"}}))
    with pytest.raises(AccessError) as raised:
        await cloud.create_node(spec())
    assert raised.value.exit_code == 3
    assert "tpu.nodes.create" in raised.value.hint
