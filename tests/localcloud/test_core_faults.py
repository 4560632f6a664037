"""Fault scripts in virtual time: what fires, when, once; and what did not fire stays visible."""

import pytest

from tests.localcloud.talk import INSTANCES, NODES, Talk, instance
from tpuops.localcloud.core.events import Control, StopMachine
from tpuops.localcloud.core.script import BadScript

V3 = {"acceleratorType": "v3-8", "runtimeVersion": "r"}


def fired(talk):
    return [fault["fired_at"] is not None for fault in talk.call("GET", "/_cloud/faults")[1]["faults"]]


def orders(talk, kind):
    return [event for event in talk.events if isinstance(event, Control) and event.order["order"] == kind]


@pytest.mark.parametrize("http", [400, 401, 403, 404, 408, 409, 412, 429, 500, 503])
def test_a_call_is_refused_once_and_nothing_happens(http):
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {"error": {"http": http, "message": "m"}}}])
    assert talk.call("POST", NODES, V3, nodeId="n1")[0] == http
    assert talk.call("GET", f"{NODES}/n1")[0] == 404
    assert fired(talk) == [True]
    assert talk.call("POST", NODES, V3, nodeId="n1")[0] == 200


def test_an_error_takes_the_shape_of_its_service():
    error = {"http": 403, "status": "PERMISSION_DENIED", "reason": "SERVICE_DISABLED", "message": "m"}
    talk = Talk([{"on": {"method": method}, "do": {"error": error}} for method in ("tpu.*.list", "compute.*.list")])
    assert talk.call("GET", NODES)[1]["error"]["details"][0]["reason"] == "SERVICE_DISABLED"
    assert talk.call("GET", INSTANCES)[1]["error"]["errors"][0]["reason"] == "SERVICE_DISABLED"


def test_a_lost_reply_has_been_carried_out():
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {"lose_reply": True}}])
    assert talk.raw("POST", NODES, V3, nodeId="n1").drop
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "CREATING"


def test_a_dropped_request_never_reached_the_service():
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {"drop_request": True}}])
    assert talk.raw("POST", NODES, V3, nodeId="n1").drop
    assert talk.call("GET", f"{NODES}/n1")[0] == 404


def test_a_late_reply_is_late():
    talk = Talk([{"on": {"method": "tpu.nodes.list"}, "do": {"delay_s": 2.5}}])
    assert [talk.raw("GET", NODES).delay_s for _ in range(2)] == [2.5, 0.0]


def test_a_refusal_says_when_to_come_back():
    error = {"http": 429, "message": "m", "retry_after_s": 7}
    talk = Talk([{"on": {"method": "tpu.nodes.list"}, "do": {"error": error}}])
    assert [talk.raw("GET", NODES).headers.get("Retry-After") for _ in range(2)] == ["7", None]


def test_the_nth_call_is_hit_and_only_calls_to_the_resource_count():
    on = {"method": "tpu.nodes.get", "nth": 2, "resource": "*/n1"}
    talk = Talk([{"on": on, "do": {"error": {"http": 503, "message": "m"}}}])
    talk.node("n1")
    talk.node("n2")
    statuses = [talk.call("GET", f"{NODES}/{name}")[0] for name in ("n2", "n1", "n1")]
    assert statuses == [200, 503, 200]


def test_a_late_failure_waits_for_a_call_that_is_admitted():
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {"fail_operation": {"code": 8, "message": "m"}}}])
    assert talk.call("POST", NODES, {**V3, "acceleratorType": "v9-8"}, nodeId="n1")[0] == 400
    assert fired(talk) == [False]
    talk.call("POST", NODES, V3, nodeId="n1")
    assert fired(talk) == [True]


def test_step_faults_fire_in_order_each_armed_by_the_one_before():
    talk = Talk(
        {
            "progress": {"file": "**/out.log", "pattern": "at (\\d+)"},
            "faults": [
                {"on": {"step": 40}, "do": {"kill": "train.py"}},
                {"on": {"step": 80}, "do": {"device_fault": {"message": "died"}}},
                {"on": {"step": 120}, "do": {"ssh_drop": {"for_s": 1.0}}},
                {"on": {"step": 160}, "do": {"preempt": True}},
            ],
        }
    )
    machine = f"{talk.node()['id']}-0"
    talk.boot()
    assert talk.events[-1] == Control(
        machine, {"order": "watch", "fault_index": 0, "step": 40, "file": "**/out.log", "pattern": "at (\\d+)"}
    )
    talk.reached(machine, 1, 500)  # not armed yet
    talk.reached(machine, 0, 39)  # not there yet
    assert fired(talk) == [False] * 4
    talk.reached(machine, 0, 40)
    talk.reached(machine, 0, 41)  # fires once
    assert orders(talk, "kill") == [Control(machine, {"order": "kill", "match": "train.py"})]
    assert orders(talk, "watch")[-1].order["step"] == 80
    talk.reached(machine, 1, 83)
    assert orders(talk, "device_fault")[0].order["message"] == "died"
    talk.reached(machine, 2, 120)
    assert orders(talk, "ssh_drop")[0].order["for_s"] == 1.0
    talk.reached(machine, 3, 160)
    assert fired(talk) == [True] * 4
    assert talk.events[-1] == StopMachine(machine)
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "PREEMPTED"


def test_a_machine_that_boots_is_told_what_to_watch():
    talk = Talk([{"on": {"step": 40}, "do": {"kill": "x"}}])
    talk.node()
    assert not orders(talk, "watch")
    talk.boot()
    assert len(orders(talk, "watch")) == 1


def test_a_script_that_comes_later_reaches_machines_that_run(talk):
    talk.node()
    talk.boot()
    assert talk.call("POST", "/_cloud/faults", [{"on": {"step": 5}, "do": {"kill": "x"}}])[0] == 200
    assert orders(talk, "watch")[-1].order["step"] == 5


def test_a_timed_fault_without_a_target_waits_for_one():
    talk = Talk([{"on": {"after_s": 1, "machine": "n2"}, "do": {"preempt": True}}])
    talk.node("n1")
    talk.wait(60)
    assert fired(talk) == [False]
    talk.node("n2")
    assert talk.call("GET", f"{NODES}/n2")[1]["state"] == "PREEMPTED"
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "READY"


def test_a_script_is_not_loaded_again_by_a_restart():
    script = [{"on": {"method": "tpu.nodes.list"}, "do": {"error": {"http": 503, "message": "m"}}}]
    talk = Talk(script)
    talk.call("GET", NODES)
    again = Talk(script, world=talk.world)
    assert again.call("GET", NODES)[0] == 200
    assert fired(again) == [True]


@pytest.mark.parametrize(
    "fault",
    [
        {"on": {"method": "x"}},
        {"on": {}, "do": {"preempt": True}},
        {"on": {"method": "x", "step": 1}, "do": {"preempt": True}},
        {"on": {"step": 1}, "do": {"error": {"http": 500}}},
        {"on": {"step": 1}, "do": {"explode": True}},
        {"on": {"step": 1, "color": "red"}, "do": {"preempt": True}},
    ],
)
def test_a_script_that_means_nothing_is_refused(talk, fault):
    with pytest.raises(BadScript, match="fault 1"):
        Talk([fault])
    assert talk.call("POST", "/_cloud/faults", [fault])[0] == 400


def test_the_request_log_tells_what_changed_something(talk):
    talk.node()
    talk.call("POST", INSTANCES, instance("vm1"))
    talk.call("GET", "/_cloud/status")
    entries = talk.call("GET", "/_cloud/requests")[1]["requests"]
    assert [(entry["n"], entry["method"], entry["mutating"]) for entry in entries] == [
        (1, "tpu.nodes.create", True),
        (2, "tpu.nodes.get", False),
        (3, "compute.instances.insert", True),
    ]
    assert entries[0]["resource"] == "local-p/us-central1-a/n1"
    assert [entry["n"] for entry in talk.call("GET", "/_cloud/requests", after="2")[1]["requests"]] == [3]


def test_reset_forgets_everything(talk):
    talk.node()
    talk.bucket()
    talk.call("POST", "/_cloud/reset")
    status = talk.call("GET", "/_cloud/status")[1]
    assert (status["nodes"], status["buckets"], status["machines"]) == ([], [], [])
    assert talk.call("GET", "/_cloud/requests")[1]["requests"] == []
    assert talk.core.next_due(talk.now) is None
