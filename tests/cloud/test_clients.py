"""Google's own clients against canned replies: what is sent, what is understood, what happens to a lost reply."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tests.cloud.conftest import LOSE
from tpuops.cloud.port import Operation
from tpuops.errors import AccessError, Conflict, NoCapacity, NotFound, QuotaExceeded, Refused, Transient
from tpuops.resources import BucketSpec, NodeSpec, Owned, Place, VmSpec, Worker

PLACE = Place("my-project", "us-central1-a")
LABELS = Owned("v3-8", "ann").labels
NODE_PATH = "projects/my-project/locations/us-central1-a/nodes/n"
NODE = {
    "name": NODE_PATH,
    "id": "7420000000000000001",
    "state": "READY",
    "health": "HEALTHY",
    "acceleratorType": "v3-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "labels": LABELS,
    "networkEndpoints": [{"ipAddress": "10.0.0.2", "port": 8470, "accessConfig": {"externalIp": "34.1.2.3"}}],
    "createTime": "2026-11-20T12:00:00.123456789Z",
    "schedulingConfig": {"spot": True},
}
INSTANCE = {
    "name": "n-vm",
    "id": "99",
    "status": "RUNNING",
    "machineType": "https://compute.googleapis.com/compute/v1/projects/p/zones/z/machineTypes/e2-small",
    "labels": LABELS,
    "networkInterfaces": [{"networkIP": "10.0.0.3", "accessConfigs": [{"natIP": "34.1.2.4"}]}],
    "creationTimestamp": "2026-11-20T04:00:00.000-08:00",
}
OPERATION = {"name": "projects/my-project/locations/us-central1-a/operations/operation-1"}
TAKEN = {"error": {"code": 409, "message": f"Resource '{NODE_PATH}' already exists", "status": "ALREADY_EXISTS"}}
BUCKET = {
    "kind": "storage#bucket",
    "name": "b",
    "location": "US-CENTRAL1",
    "projectNumber": "1234",
    "labels": LABELS,
    "timeCreated": "2026-11-20T12:00:00.000Z",
}
OBJECT = {
    "name": "lease.json",
    "bucket": "b",
    "generation": "7",
    "size": "2",
    "md5Hash": "mZFLkyvTelC5g8XnyQrpOw==",
    "updated": "2026-11-20T12:00:00.000Z",
}
PRECONDITION = {
    "error": {
        "code": 412,
        "message": "At least one of the pre-conditions you specified did not hold.",
        "errors": [{"reason": "conditionNotMet", "domain": "global"}],
    }
}


def spec(**changes) -> NodeSpec:
    return NodeSpec("n", PLACE, "v3-8", "tpu-ubuntu2204-base", False, LABELS, {"ssh-keys": "ann:x y"}, **changes)


def vm_spec() -> VmSpec:
    end = datetime(2026, 12, 1, tzinfo=UTC)
    return VmSpec(
        "n-vm", PLACE, "e2-small", "projects/d/global/images/family/f", 10, LABELS, {"k": "v"}, terminate_at=end
    )


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
    with pytest.raises(NotFound):
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


async def test_a_bucket_is_made_closed_and_without_soft_delete(canned, cloud):
    canned.say("POST /storage/v1/b", (200, BUCKET))
    made = await cloud.create_bucket(BucketSpec("b", "my-project", "us-central1", LABELS))
    assert (made.location, made.project_number) == ("us-central1", "1234")
    body = json.loads(canned.seen[0].body)
    assert "project=my-project" in canned.seen[0].query
    assert body["location"] == "US-CENTRAL1"
    assert body["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert body["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert str(body["softDeletePolicy"]["retentionDurationSeconds"]) == "0"
    assert body["labels"] == LABELS


@pytest.mark.usefixtures("quick")
async def test_a_bucket_whose_reply_was_lost_is_ours_and_anothers_is_not(canned, cloud):
    taken = {"error": {"code": 409, "message": "you already own it", "errors": [{"reason": "conflict"}]}}
    canned.say("POST /storage/v1/b", LOSE, (409, taken))
    canned.say("GET /storage/v1/b/b", (200, BUCKET))
    assert (await cloud.create_bucket(BucketSpec("b", "my-project", "us-central1", LABELS))).name == "b"
    canned.say("POST /storage/v1/b", (409, taken))
    with pytest.raises(Conflict):
        await cloud.create_bucket(BucketSpec("b", "my-project", "us-central1", LABELS))


async def test_somebody_elses_bucket_is_refused(canned, cloud):
    text = "ann@x.org does not have storage.buckets.get access to the Google Cloud Storage bucket."
    canned.say(
        "GET /storage/v1/b/b", (403, {"error": {"code": 403, "message": text, "errors": [{"reason": "forbidden"}]}})
    )
    with pytest.raises(Refused):
        await cloud.bucket("b")


async def test_an_object_is_read_with_the_servers_own_time(canned, cloud):
    canned.say("GET /download/storage/v1/b/b/o/lease.json", (200, b"{}", {"Content-Type": "application/json"}))
    canned.say("GET /storage/v1/b/b/o/lease.json", (200, OBJECT))
    found = await cloud.store("b").read("lease.json")
    assert found.data == b"{}"
    assert found.stat.generation == 7
    assert abs((datetime.now(UTC) - found.server_now).total_seconds()) < 5


async def test_one_question_is_one_request(canned, cloud):
    canned.say("POST /upload/storage/v1/b/b/o", (200, OBJECT))
    await cloud.store("b").write("lease.json", b"{}", if_generation=0)
    await asyncio.sleep(0.1)
    assert [seen.verb for seen in canned.seen] == ["POST"]


async def test_a_conditional_write_says_which_generation_it_wants(canned, cloud):
    canned.say("POST /upload/storage/v1/b/b/o", (200, OBJECT))
    stat = await cloud.store("b").write("lease.json", b"{}", if_generation=0)
    assert (stat.generation, stat.size) == (7, 2)
    assert "ifGenerationMatch=0" in canned.seen[0].query


async def test_a_write_over_somebody_elses_generation_is_a_conflict(canned, cloud):
    canned.say("POST /upload/", (412, PRECONDITION))
    with pytest.raises(Conflict):
        await cloud.store("b").write("lease.json", b"{}", if_generation=0)
    assert canned.asked("POST", "/upload/") == 1


@pytest.mark.usefixtures("quick")
async def test_a_write_whose_reply_was_lost_is_recognised_by_its_content(canned, cloud):
    canned.say("POST /upload/", LOSE, (412, PRECONDITION))
    canned.say("GET /download/storage/v1/b/b/o/lease.json", (200, b"{}"))
    canned.say("GET /storage/v1/b/b/o/lease.json", (200, OBJECT))
    assert (await cloud.store("b").write("lease.json", b"{}", if_generation=0)).generation == 7
    canned.say("POST /upload/", LOSE, (412, PRECONDITION))
    with pytest.raises(Conflict, match="somebody else"):
        await cloud.store("b").write("lease.json", b"other", if_generation=0)


@pytest.mark.usefixtures("quick")
async def test_deleting_is_done_when_the_object_is_gone(canned, cloud):
    await cloud.store("b").delete("x", if_generation=3)
    canned.say("DELETE /storage/v1/b/b/o/x", (412, PRECONDITION))
    with pytest.raises(Conflict):
        await cloud.store("b").delete("x", if_generation=3)
    canned.say("DELETE /storage/v1/b/b/o/x", LOSE, (412, PRECONDITION))
    await cloud.store("b").delete("x", if_generation=3)


async def test_a_listing_reads_every_page_by_name(canned, cloud):
    canned.say("GET pageToken=t", (200, {"items": [{**OBJECT, "name": "a/1"}]}))
    canned.say("GET /storage/v1/b/b/o", (200, {"items": [{**OBJECT, "name": "a/2"}], "nextPageToken": "t"}))
    assert [stat.name for stat in await cloud.store("b").list("a/")] == ["a/1", "a/2"]
    canned.say("GET /storage/v1/b/c/o", (200, {}))
    assert await cloud.store("c").list("a/") == ()


async def test_a_missing_permission_names_itself_and_exits_3(canned, cloud):
    text = f"Permission 'tpu.nodes.create' denied on '{NODE_PATH}'"
    canned.say("POST /nodes", (403, {"error": {"code": 403, "message": text, "status": "PERMISSION_DENIED"}}))
    with pytest.raises(AccessError) as raised:
        await cloud.create_node(spec())
    assert raised.value.exit_code == 3
    assert "tpu.nodes.create" in raised.value.hint
