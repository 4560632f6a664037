"""Maintenance, unwell nodes and preemption with a notice, as node and metadata server tell it."""

import json

import pytest
from google.cloud import tpu_v2
from google.protobuf import json_format

from tests.localcloud.talk import INSTANCES, NODES, ZONE, Talk
from tpuops.localcloud.core.events import Control, StartMachine, StopMachine

GOOGLE = {"metadata-flavor": "Google"}
ALPHA = NODES.replace("/v2/", "/v2alpha1/")


def inside(talk, machine, path):
    return talk.raw("GET", f"/m/{machine}/computeMetadata/v1/instance/{path}", b"", GOOGLE).body.decode()


def test_a_simulated_maintenance_is_announced_and_reboots_the_machines(talk):
    node = talk.node()
    machine = f"{node['id']}-0"
    operation = talk.call("POST", f"{ALPHA}/n1:simulateMaintenanceEvent", {"workerIds": ["0"]})[1]
    during = talk.call("GET", f"{NODES}/n1")[1]
    assert (during["health"], during["upcomingMaintenance"]["maintenanceStatus"]) == (
        "UNHEALTHY_MAINTENANCE",
        "ONGOING",
    )
    assert inside(talk, machine, "maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE"
    assert json.loads(inside(talk, machine, "upcoming-maintenance"))["maintenanceStatus"] == "ONGOING"
    assert talk.call("POST", f"{ALPHA}/n1:performMaintenance", {})[0] == 409
    talk.wait()
    after = talk.call("GET", f"{NODES}/n1")[1]
    assert (after["health"], "upcomingMaintenance" in after) == ("HEALTHY", False)
    assert talk.call("GET", f"/v2alpha1/{operation['name']}")[1]["done"] is True
    assert [type(event) for event in talk.events[-2:]] == [StopMachine, StartMachine]
    assert inside(talk, machine, "maintenance-event") == "NONE"
    assert "no notifications" in inside(talk, machine, "upcoming-maintenance")


def test_maintenance_needs_a_ready_node(talk):
    talk.node()
    talk.call("POST", f"{NODES}/n1:stop", {})
    status, reply = talk.call("POST", f"{ALPHA}/n1:performMaintenance", {})
    assert (status, "maintenance is not supported while in state STOPPING" in reply["error"]["message"]) == (400, True)
    assert talk.call("POST", f"{ALPHA}/n9:performMaintenance", {})[0] == 404
    assert talk.call("POST", f"{NODES}/n1:performMaintenance", {})[0] == 404


def test_all_nodes_of_a_queued_resource_are_maintained(talk):
    spec = {"parent": "projects/local-p/locations/us-central1-a", "multiNodeParams": {"nodeCount": 2}}
    spec["node"] = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
    path = f"{ZONE}/queuedResources".replace("/v2/", "/v2alpha1/")
    talk.call("POST", path, {"tpu": {"nodeSpec": [spec]}}, queuedResourceId="q")
    assert talk.call("POST", f"{path}/q:performMaintenanceQueuedResource", {})[0] == 400
    talk.wait()
    assert talk.call("POST", f"{path}/q:performMaintenanceQueuedResource", {})[0] == 200
    talk.wait()
    boots = [event.machine.boot for event in talk.events if isinstance(event, StartMachine)]
    assert boots == [1, 1, 2, 2]


def test_a_scripted_maintenance_gives_notice_to_nodes_and_to_instances():
    talk = Talk(
        [
            {"on": {"after_s": 20, "machine": "n1"}, "do": {"maintenance": {"notice_s": 5}}},
            {"on": {"after_s": 20, "machine": "vm1"}, "do": {"maintenance": {"notice_s": 5}}},
        ]
    )
    node, vm = talk.node(), talk.vm()
    talk.wait(10)
    assert talk.call("GET", f"{NODES}/n1")[1]["health"] == "UNHEALTHY_MAINTENANCE"
    assert inside(talk, vm["id"], "maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE"
    talk.wait(5)
    assert talk.call("GET", f"{NODES}/n1")[1]["health"] == "HEALTHY"
    again = [event.machine.id for event in talk.events if isinstance(event, StartMachine) and event.machine.boot == 2]
    assert sorted(again) == sorted([f"{node['id']}-0", vm["id"]])


@pytest.mark.parametrize("for_s", [5, 0])
def test_an_unwell_node_says_so_for_as_long_as_the_script_wants(for_s):
    deed = {"unhealthy": {"health": "TIMEOUT", "for_s": for_s}}
    talk = Talk([{"on": {"after_s": 20}, "do": deed}])
    talk.node()
    talk.wait(11)
    assert talk.call("GET", f"{NODES}/n1")[1]["health"] == "TIMEOUT"
    talk.wait()
    node = talk.call("GET", f"{NODES}/n1")[1]
    assert (node["health"], node["state"]) == ("HEALTHY" if for_s else "TIMEOUT", "READY")


def test_an_unwell_node_may_tell_a_symptom():
    deed = {"unhealthy": {"symptom": "HBM_OUT_OF_MEMORY", "for_s": 1}}
    talk = Talk([{"on": {"after_s": 20}, "do": deed}])
    talk.node()
    assert "symptoms" not in talk.call("GET", f"{NODES}/n1")[1]
    talk.wait(20)
    node = talk.call("GET", f"{NODES}/n1")[1]
    assert [symptom["symptomType"] for symptom in node["symptoms"]] == ["HBM_OUT_OF_MEMORY"]
    json_format.ParseDict(node, tpu_v2.Node.pb()(), ignore_unknown_fields=False)


def test_a_preemption_with_notice_is_told_by_the_metadata_server_first():
    talk = Talk([{"on": {"after_s": 20}, "do": {"preempt": {"notice_s": 5}}}])
    node = talk.node("n1", acceleratorType="v2-32", schedulingConfig={"spot": True})
    assert inside(talk, f"{node['id']}-3", "preempted") == "FALSE"
    talk.wait(11)
    assert {inside(talk, f"{node['id']}-{worker}", "preempted") for worker in range(4)} == {"TRUE"}
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "READY"
    talk.wait(5)
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "PREEMPTED"


def test_an_instance_that_is_preempted_with_notice_stops():
    talk = Talk([{"on": {"after_s": 20}, "do": {"preempt": {"notice_s": 5}}}])
    vm = talk.vm("vm1", scheduling={"provisioningModel": "SPOT"})
    talk.wait(19)
    assert inside(talk, vm["id"], "preempted") == "TRUE"
    talk.wait(5)
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "TERMINATED"


def test_a_scripted_slow_login_reaches_the_machine():
    deeds = [{"ssh_delay": {"delay_s": 2}}]
    talk = Talk([{"on": {"after_s": 20}, "do": deed} for deed in deeds])
    talk.node()
    talk.boot()
    talk.wait(15)
    orders = [event.order for event in talk.events if isinstance(event, Control)]
    assert orders == [{"order": "ssh_delay", "delay_s": 2}]
