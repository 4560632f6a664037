"""Queued resources in virtual time: through their whole life, and what they outlive."""

import pytest

from tests.localcloud.talk import NODES, ZONE, Talk
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.events import DeleteMachine, StartMachine, StopMachine
from tpuops.localcloud.core.profile import Profile

QUEUE = f"{ZONE}/queuedResources"
ALPHA = QUEUE.replace("/v2/", "/v2alpha1/")
PARENT = "projects/local-p/locations/us-central1-a"
FORCE = {"force": "True"}


def asked(node_id="n1", **fields):
    spec = {"parent": PARENT, "node": {"acceleratorType": "v3-8", "runtimeVersion": "r"}}
    spec |= {"nodeId": node_id} if node_id else {}
    spec |= fields.pop("spec", {})
    return {"tpu": {"nodeSpec": [spec]}, "spot": {}, **fields}


def queue(talk, name="q1", wait_s=10.0, **fields):
    path = ALPHA if "provisioningModel" in fields else QUEUE
    status, operation = talk.call("POST", path, asked(**fields), queuedResourceId=name)
    assert status == 200, operation
    talk.wait(wait_s)
    return operation


def state(talk, name="q1"):
    return talk.call("GET", f"{QUEUE}/{name}")[1]["state"]


def active(**fields):
    talk = Talk(**fields)
    queue(talk)
    return talk


def test_it_goes_through_its_states_and_brings_up_its_node():
    talk = Talk()
    operation = queue(talk, wait_s=0)
    seen = [state(talk)["state"]]
    for _ in range(40):
        talk.wait(0.05)
        if state(talk)["state"] != seen[-1]:
            seen.append(state(talk)["state"])
    assert seen == ["CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]
    done = talk.call("GET", f"/v2/{operation['name']}")[1]
    assert done["response"]["@type"].endswith("v2.QueuedResource")
    node = talk.call("GET", f"{NODES}/n1")[1]
    assert (node["state"], node["queuedResource"]) == ("READY", f"{PARENT}/queuedResources/q1")
    assert node["schedulingConfig"] == {"spot": True}
    assert [event.machine.name for event in talk.events if isinstance(event, StartMachine)] == ["n1"]
    assert state(talk) == {"state": "ACTIVE", "stateInitiator": "SERVICE", "activeData": {}}


def test_several_slices_are_nodes_of_one_prefix():
    talk = Talk()
    queue(talk, node_id="", spec={"multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "s"}})
    nodes = talk.call("GET", NODES)[1]["nodes"]
    assert [(node["name"].rsplit("/", 1)[1], node["multisliceNode"]) for node in nodes] == [
        ("s-0", True),
        ("s-1", True),
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "tpu.node_spec must be specified"),
        (asked(node_id=""), "either node_id or multislice_params"),
        (asked(spec={"multisliceParams": {"nodeCount": 2}}), "either node_id or multislice_params"),
        (asked(node_id="", spec={"multisliceParams": {"nodeCount": 1}}), "node_count must be between"),
        (asked(spec={"parent": "projects/local-p/locations/us-east1-d"}), "own location"),
        (asked(spec={"node": {"acceleratorType": "v3-8"}}), "runtime_version"),
        (asked(spec={"node": {"acceleratorType": "v9-8", "runtimeVersion": "r"}}), "could not be found in the zonal"),
        (asked(guaranteed={}), "only one tier"),
        (asked(queueingPolicy={"validUntilDuration": "soon"}), "malformed"),
        (asked(queueingPolicy={"validUntilTime": "2020-01-01T00:00:00Z"}), "ends before it begins"),
        (asked(provisioningModel="FLEX_START"), "Unknown name \"provisioningModel\" at 'queued_resource'"),
        (asked(bestEffort={}), 'Unknown name "bestEffort"'),
        (asked(node_id="", spec={"multiNodeParams": {"nodeCount": 2}}), 'Unknown name "multiNodeParams"'),
    ],
)
def test_a_malformed_request_is_refused_at_once(talk, body, text):
    status, reply = talk.call("POST", QUEUE, body, queuedResourceId="q1")
    assert (status, reply["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert text in reply["error"]["message"]
    assert talk.call("GET", QUEUE)[1] == {}


def test_names_are_taken_and_ids_are_checked(talk):
    queue(talk)
    assert talk.call("POST", QUEUE, asked("n2"), queuedResourceId="q1")[0] == 409
    assert talk.call("POST", QUEUE, asked("n1"), queuedResourceId="q2")[0] == 409
    assert talk.call("POST", QUEUE, asked("n2"), queuedResourceId="q 2")[0] == 400
    for verb, path in [("GET", "q9"), ("DELETE", "q9"), ("POST", "q9:reset")]:
        assert talk.call(verb, f"{QUEUE}/{path}")[1]["error"]["status"] == "NOT_FOUND"


def test_a_request_id_and_a_validation_create_nothing_twice(talk):
    first = talk.call("POST", QUEUE, asked(), queuedResourceId="q1", requestId="u")[1]
    assert talk.call("POST", QUEUE, asked(), queuedResourceId="q1", requestId="u")[1]["name"] == first["name"]
    checked = talk.call("POST", QUEUE, asked("n2"), queuedResourceId="q2", validateOnly="true")[1]
    assert checked["done"] is True
    assert talk.call("GET", f"{QUEUE}/q2")[0] == 404
    body = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
    alpha = NODES.replace("/v2/", "/v2alpha1/")
    names = {talk.call("POST", alpha, body, nodeId="a1", requestId="w")[1]["name"] for _ in range(2)}
    assert len(names) == 1
    answers = [talk.call("POST", NODES, body, nodeId="b1", requestId="x")[0] for _ in range(2)]
    assert answers == [200, 409]  # v2 knows no request ids of nodes


def test_without_force_only_what_has_no_node_may_be_deleted():
    talk = active()
    status, reply = talk.call("DELETE", f"{QUEUE}/q1")
    assert (status, reply["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "ACTIVE" in reply["error"]["message"]
    operation = talk.call("DELETE", f"{QUEUE}/q1", **FORCE)[1]
    assert any(isinstance(event, StopMachine) for event in talk.events)
    assert state(talk)["state"] == "DELETING"
    assert talk.call("DELETE", f"{QUEUE}/q1")[1]["name"] == operation["name"]
    talk.wait()
    assert talk.call("GET", f"{QUEUE}/q1")[0] == 404
    assert talk.call("GET", f"{NODES}/n1")[0] == 404
    assert any(isinstance(event, DeleteMachine) for event in talk.events)


def test_one_that_still_waits_is_deleted_without_force_and_never_comes_up():
    talk = Talk([{"on": {"method": "tpu.queuedResources.create"}, "do": {"queue_s": 60}}])
    queue(talk)
    assert state(talk)["state"] == "WAITING_FOR_RESOURCES"
    talk.call("DELETE", f"{QUEUE}/q1")
    talk.wait(100)
    assert talk.call("GET", QUEUE)[1] == {}
    assert talk.call("GET", NODES)[1] == {}


def test_it_outlives_a_node_that_was_deleted():
    talk = active()
    talk.call("DELETE", f"{NODES}/n1")
    talk.wait(0.31)
    assert state(talk) == {"state": "SUSPENDING", "stateInitiator": "USER", "suspendingData": {}}
    assert talk.call("DELETE", f"{QUEUE}/q1")[0] == 400
    talk.wait()
    assert state(talk)["state"] == "SUSPENDED"
    assert talk.call("DELETE", f"{QUEUE}/q1")[0] == 200
    talk.wait()
    assert talk.call("GET", f"{QUEUE}/q1")[0] == 404


@pytest.mark.parametrize("deletes", [False, True])
def test_a_preempted_one_is_suspended_and_does_not_queue_again(deletes):
    profile = Profile(latencies={}, suspension_deletes_nodes=deletes)
    talk = Talk([{"on": {"after_s": 20}, "do": {"preempt": True}}], profile=profile)
    queue(talk, wait_s=100)
    assert (state(talk)["state"], state(talk)["stateInitiator"]) == ("SUSPENDED", "SERVICE")
    status, node = talk.call("GET", f"{NODES}/n1")
    assert (status == 404) if deletes else (node["state"] == "PREEMPTED")
    talk.call("POST", f"{QUEUE}/q1:reset", {})
    talk.wait()
    assert state(talk)["state"] == "ACTIVE"
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "READY"


def test_reset_is_refused_while_it_queues_or_goes():
    talk = Talk([{"on": {"method": "tpu.queuedResources.create"}, "do": {"queue_s": 60}}])
    queue(talk)
    status, reply = talk.call("POST", f"{QUEUE}/q1:reset", {})
    assert (status, "reset is not supported while in state WAITING_FOR_RESOURCES" in reply["error"]["message"]) == (
        400,
        True,
    )


def test_valid_until_passes_and_the_failed_request_stays():
    talk = Talk([{"on": {"method": "tpu.queuedResources.create"}, "do": {"queue_s": 60}}])
    queue(talk, wait_s=29, queueingPolicy={"validUntilDuration": "30s"})
    assert state(talk)["state"] == "WAITING_FOR_RESOURCES"
    talk.wait(100)
    assert state(talk)["state"] == "FAILED"
    assert state(talk)["failedData"]["error"]["code"] == 4
    assert talk.call("DELETE", f"{QUEUE}/q1")[0] == 200


def test_valid_after_holds_it_back(talk):
    queue(talk, queueingPolicy={"validAfterDuration": "30s"})
    assert state(talk)["state"] == "ACCEPTED"
    talk.wait(30)
    assert state(talk)["state"] == "ACTIVE"


def test_a_late_failure_is_its_own_and_not_the_operations():
    error = {"code": 8, "message": "There is no more capacity in the zone"}
    talk = Talk([{"on": {"method": "tpu.queuedResources.create"}, "do": {"fail_operation": error}}])
    operation = queue(talk)
    assert "error" not in talk.call("GET", f"/v2/{operation['name']}")[1]
    assert state(talk)["failedData"]["error"] == error
    assert talk.call("GET", NODES)[1] == {}


def test_it_eats_quota_until_it_is_deleted_also_failed_and_suspended():
    talk = active(profile=Profile(latencies={}, quotas={"v3": 8}))
    talk.call("DELETE", f"{NODES}/n1")
    talk.wait()
    assert state(talk)["state"] == "SUSPENDED"
    status, reply = talk.call("POST", QUEUE, asked("n2"), queuedResourceId="q2")
    assert (status, reply["error"]["details"][0]["@type"].rsplit(".", 1)[1]) == (429, "QuotaFailure")
    talk.call("DELETE", f"{QUEUE}/q1")
    talk.wait()
    assert talk.call("POST", QUEUE, asked("n2"), queuedResourceId="q2")[0] == 200


def test_flex_start_ends_by_itself_and_leaves_the_request_suspended():
    talk = Talk()
    queue(talk, provisioningModel="FLEX_START", runDuration={"maxRunDuration": "100s"})
    assert state(talk)["state"] == "ACTIVE"
    talk.wait(101)
    assert state(talk)["state"] == "SUSPENDED"
    assert talk.call("GET", NODES)[1] == {}


def test_a_failed_deletion_leaves_it_as_it_was():
    talk = Talk(
        [{"on": {"method": "tpu.queuedResources.delete"}, "do": {"fail_operation": {"code": 13, "message": "x"}}}]
    )
    queue(talk)
    talk.call("DELETE", f"{QUEUE}/q1", **FORCE)
    talk.wait()
    assert state(talk)["state"] == "ACTIVE"
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "READY"


def test_its_nodes_cannot_be_stopped():
    status, reply = active().call("POST", f"{NODES}/n1:stop", {})
    assert (status, reply["error"]["status"]) == (400, "FAILED_PRECONDITION")


def test_lists_cover_all_zones_and_name_those_that_could_not_be_reached():
    hide = {"unreachable": ["us-central1-a"]}
    script = [{"on": {"method": method}, "do": hide} for method in ("tpu.nodes.list", "tpu.queuedResources.list")]
    talk = Talk(script)
    queue(talk)
    for kind in ("nodes", "queuedResources"):
        path = f"/v2/projects/local-p/locations/-/{kind}"
        assert talk.call("GET", path)[1] == {"unreachable": [PARENT]}
        assert len(talk.call("GET", path)[1][kind]) == 1
    assert all(fault["fired_at"] for fault in talk.call("GET", "/_cloud/faults")[1]["faults"])


def test_v2alpha1_answers_with_its_own_types(talk):
    alpha = QUEUE.replace("/v2/", "/v2alpha1/")
    params = {"multiNodeParams": {"nodeCount": 2}}
    operation = talk.call("POST", alpha, asked(node_id="", spec=params), queuedResourceId="q1")[1]
    assert operation["metadata"]["@type"].endswith("tpu.v2alpha1.OperationMetadata")
    talk.wait()
    done = talk.call("GET", f"/v2alpha1/{operation['name']}")[1]
    assert done["response"]["@type"].endswith("tpu.v2alpha1.QueuedResource")
    assert [node["name"][-4:] for node in talk.call("GET", NODES)[1]["nodes"]] == ["q1-0", "q1-1"]


def test_a_name_that_was_taken_while_it_waited_fails_it_and_leaves_the_other_node_alone():
    talk = Talk([{"on": {"method": "tpu.queuedResources.create"}, "do": {"queue_s": 60}}])
    queue(talk)
    node = talk.node("n1")
    talk.wait(100)
    assert (state(talk)["state"], state(talk)["failedData"]["error"]["code"]) == ("FAILED", 6)
    assert talk.call("GET", f"{NODES}/n1")[1] == node


@pytest.mark.parametrize("end", ["reset", "delete", "expire"])
def test_a_node_made_under_the_name_of_one_it_lost_is_not_its_own(end):
    talk = Talk()
    queue(talk, provisioningModel="FLEX_START", runDuration={"maxRunDuration": "100s"})
    talk.call("DELETE", f"{NODES}/n1")
    talk.wait()
    node = talk.node("n1")
    if end == "reset":
        talk.call("POST", f"{QUEUE}/q1:reset", {})
    elif end == "delete":
        talk.call("DELETE", f"{QUEUE}/q1", **FORCE)
    talk.wait(200)
    assert talk.call("GET", f"{NODES}/n1")[1] == node
    if end == "reset":
        assert state(talk)["failedData"]["error"]["code"] == 6


def test_a_node_that_outlived_its_queued_resource_suspends_no_later_one_of_that_name():
    talk = Talk()
    several = {"node_id": "", "spec": {"multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "s"}}}
    queue(talk, **several)
    talk.call("DELETE", f"{NODES}/s-0")
    talk.wait()
    talk.call("DELETE", f"{QUEUE}/q1")
    talk.wait()
    queue(talk)
    talk.call("DELETE", f"{NODES}/s-1")
    talk.wait()
    assert state(talk)["state"] == "ACTIVE"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"runDuration": {"maxRunDuration": "9999999s"}}, "at most 7 days"),
        ({"runDuration": {"maxRunDuration": "soon"}}, "malformed"),
        ({"runDuration": {"terminationTime": "2020-01-01T00:00:00Z"}}, "at most 7 days"),
        ({"node_id": "", "spec": {"multisliceParams": {"nodeCount": 2}}}, 'Unknown name "multisliceParams"'),
    ],
)
def test_v2alpha1_refuses_what_it_does_not_know_and_runs_that_are_too_long(talk, fields, text):
    status, reply = talk.call("POST", ALPHA, asked(provisioningModel="FLEX_START", **fields), queuedResourceId="q1")
    assert (status, text in reply["error"]["message"]) == (400, True)


def test_flex_start_may_end_at_a_time_of_day():
    talk = Talk()
    queue(talk, provisioningModel="FLEX_START", runDuration={"terminationTime": timestamp(talk.now + 100)})
    talk.wait(89)
    assert state(talk)["state"] == "ACTIVE"
    talk.wait(2)
    assert state(talk)["state"] in {"SUSPENDING", "SUSPENDED"}
