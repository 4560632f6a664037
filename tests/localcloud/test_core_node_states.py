"""Nodes that Google takes out of service, for a while or for good: every state that a node can be seen in."""

import pytest

from tests.localcloud.talk import NODES, ZONE, Talk
from tpuops.localcloud.core.events import DeleteMachine, StartMachine, StopMachine
from tpuops.localcloud.core.tpu.states import NODE_STEPS

SPEC = {"parent": "projects/local-p/locations/us-central1-a", "nodeId": "n1"}
SPEC["node"] = {"acceleratorType": "v3-8", "runtimeVersion": "r"}


def befallen(**deed):
    """A ready node, ten seconds old, that the deed strikes in twenty."""
    talk = Talk([{"on": {"after_s": 30}, "do": {"node_state": deed}}])
    return talk, talk.node()


def seen(talk, seconds):
    found = []
    for _ in range(int(seconds * 10)):
        talk.wait(0.1)
        state = talk.call("GET", f"{NODES}/n1")[1]["state"]
        if state not in found[-1:]:
            found.append(state)
    return found


@pytest.mark.parametrize(
    ("deed", "states"),
    [
        ({"state": "RESTARTING", "for_s": 2}, ["READY", "RESTARTING", "READY"]),
        ({"state": "REIMAGING", "for_s": 2}, ["READY", "REIMAGING", "READY"]),
        ({"state": "REPAIRING", "for_s": 2}, ["READY", "REPAIRING", "READY"]),
        ({"state": "REPAIRING", "for_s": 2, "then": "UNKNOWN"}, ["READY", "REPAIRING", "UNKNOWN"]),
        ({"state": "REPAIRING"}, ["READY", "REPAIRING"]),
        ({"state": "HIDING", "for_s": 2}, ["READY", "HIDING", "HIDDEN", "UNHIDING", "READY"]),
        ({"state": "TERMINATED"}, ["READY", "TERMINATED"]),
    ],
)
def test_a_node_goes_through_the_states_that_google_puts_it_in(deed, states):
    talk, node = befallen(**deed)
    assert seen(talk, 40) == states
    boots = [event.machine.boot for event in talk.events if isinstance(event, StartMachine)]
    assert boots == ([1, 2] if states[-1] == "READY" else [1])
    assert StopMachine(f"{node['id']}-0") in talk.events
    shown = talk.call("GET", f"{NODES}/n1")[1]
    assert shown.get("health") == ("HEALTHY" if states[-1] == "READY" else None)


@pytest.mark.parametrize("state", ["RESTARTING", "REIMAGING", "REPAIRING", "HIDING", "TERMINATED"])
def test_while_it_is_away_it_can_only_be_deleted(state):
    talk, _ = befallen(state=state)
    talk.wait(25)
    for verb, path, query in (("POST", ":start", {}), ("POST", ":stop", {}), ("PATCH", "", {"updateMask": "labels"})):
        status, reply = talk.call(verb, f"{NODES}/n1{path}", {}, **query)
        assert (status, f"not supported while in state {state}" in reply["error"]["message"]) == (400, True)
    assert talk.call("DELETE", f"{NODES}/n1")[0] == 200
    talk.wait()
    assert talk.call("GET", f"{NODES}/n1")[0] == 404


def test_one_that_was_deleted_meanwhile_does_not_come_back_nor_does_its_successor_suffer():
    talk, _ = befallen(state="REPAIRING", for_s=40)
    talk.wait(25)
    talk.call("DELETE", f"{NODES}/n1")
    talk.wait()
    talk.node()
    talk.call("POST", "/_cloud/faults", [{"on": {"after_s": 1}, "do": {"node_state": {"state": "REPAIRING"}}}])
    talk.wait(60)
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "REPAIRING"


@pytest.mark.parametrize("deed", [{"node_state": {"state": "TERMINATED"}}, {"preempt": {"gone": True}}])
def test_a_queued_resource_is_suspended_when_its_node_is_terminated_or_vanishes(deed):
    talk = Talk([{"on": {"after_s": 30}, "do": deed}])
    talk.call("POST", f"{ZONE}/queuedResources", {"tpu": {"nodeSpec": [SPEC]}, "spot": {}}, queuedResourceId="q")
    talk.wait(40)
    state = talk.call("GET", f"{ZONE}/queuedResources/q")[1]["state"]
    assert (state["state"], state["stateInitiator"]) == ("SUSPENDED", "SERVICE")


@pytest.mark.parametrize("notice", [{}, {"notice_s": 5}])
def test_a_preempted_node_may_leave_nothing_behind(notice):
    talk = Talk([{"on": {"after_s": 20}, "do": {"preempt": {"gone": True, **notice}}}])
    node = talk.node("n1", schedulingConfig={"spot": True})
    talk.wait(20)
    assert talk.call("GET", f"{NODES}/n1")[0] == 404
    assert talk.events[-1] == DeleteMachine(f"{node['id']}-0")
    assert talk.node()["id"] != node["id"]


def test_the_table_holds_every_state_of_the_api():
    from google.cloud import tpu_v2  # noqa: PLC0415 (a slow import, for this test alone)

    assert set(NODE_STEPS) == {state.name for state in tpu_v2.Node.State} - {"STATE_UNSPECIFIED"}
