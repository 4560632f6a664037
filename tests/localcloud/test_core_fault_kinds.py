"""Every kind of fault that a script can name fires, and one that could do nothing has not fired."""

import pytest

from tests.localcloud.talk import NODES, ZONE, Talk
from tpuops.localcloud.core import script
from tpuops.localcloud.core.events import Answered, Control

ERROR = {"http": 503, "status": "UNAVAILABLE", "message": "x"}
CALLS = {
    "error": ERROR,
    "fail_operation": {"code": 8, "message": "x"},
    "lose_reply": True,
    "drop_request": True,
    "delay_s": 2.5,
    "broken_stream": {"after_bytes": 100},
    "stalled_stream": {"after_bytes": 100, "for_s": 3},
    "queue_s": 60,
    "unreachable": ["us-central1-a"],
}
ORDERS = {
    "kill": "train.py",
    "hang": "train.py",
    "device_fault": {"message": "x"},
    "device_held": "train.py",
    "ssh_drop": {"for_s": 1},
    "ssh_delay": {"delay_s": 1},
    "key_delay": {"for_s": 1},
    "disk_full": {"for_s": 1},
    "slow_disk": {"delay_s": 1},
    "slow_network": {"delay_s": 1, "bytes_per_s": 1000},
}
TAKING = {
    "preempt": {"notice_s": 1},
    "maintenance": True,
    "unhealthy": {"for_s": 1},
    "node_state": {"state": "REPAIRING", "for_s": 1},
}
EVERYWHERE = NODES.replace("us-central1-a", "-")
METHODS = {"queue_s": "tpu.queuedResources.create", "unreachable": "tpu.nodes.list"} | dict.fromkeys(
    script.STREAM_DEEDS, "tpu.nodes.*"
)
CLOUD = {"access": {"enforce": True}}


def fired(talk):
    return [fault["fired_at"] is not None for fault in script.shown(talk.world)]


def orders(talk):
    return [event for event in talk.events if isinstance(event, Control) and event.fault]


def test_the_examples_here_are_all_kinds_there_are():
    assert set(CALLS) == script.CALL_DEEDS
    assert set(ORDERS) == set(script.ORDERS)
    assert set(TAKING) == script.TAKING_DEEDS
    assert set(CLOUD) == script.CLOUD_DEEDS


@pytest.mark.parametrize("kind", CALLS)
def test_what_happens_to_a_call_fires_with_that_call(kind):
    talk = Talk([{"on": {"method": METHODS.get(kind, "tpu.nodes.create")}, "do": {kind: CALLS[kind]}}])
    assert fired(talk) == [False]
    node = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
    spec = {"parent": "projects/local-p/locations/us-central1-a", "nodeId": "n2", "node": node}
    talk.call("POST", NODES, node, nodeId="n1")
    talk.call("POST", f"{ZONE}/queuedResources", {"tpu": {"nodeSpec": [spec]}}, queuedResourceId="q")
    talk.call("GET", EVERYWHERE)
    assert fired(talk) == [True]


@pytest.mark.parametrize(
    ("deed", "call"),
    [
        ({"fail_operation": {"code": 8, "message": "x"}}, ("GET", NODES)),
        ({"unreachable": ["us-central1-a"]}, ("GET", NODES)),
        ({"queue_s": 60}, ("GET", f"{ZONE}/queuedResources")),
        ({"preempt": True}, ("GET", f"{NODES}/n9")),
        ({"broken_stream": {"after_bytes": 262_144}}, ("GET", NODES)),
        ({"stalled_stream": {"after_bytes": 262_144, "for_s": 1}}, ("GET", NODES)),
    ],
)
def test_a_fault_that_the_call_cannot_suffer_has_not_fired(deed, call):
    talk = Talk([{"on": {"method": "tpu.*"}, "do": deed}])
    talk.call(*call)
    assert fired(talk) == [False]


def test_what_only_a_node_can_suffer_waits_for_one():
    talk = Talk([{"on": {"after_s": 1}, "do": {kind: TAKING[kind]}} for kind in ("unhealthy", "node_state")])
    talk.vm()
    talk.wait(5)
    assert fired(talk) == [False, False]
    talk.node()
    assert fired(talk) == [True, True]


@pytest.mark.parametrize("kind", [*ORDERS, *TAKING])
@pytest.mark.parametrize("on", [{"after_s": 30}, {"step": 5}])
def test_what_happens_to_a_machine_fires_by_the_clock_and_at_a_step(kind, on):
    talk = Talk([{"on": on, "do": {kind: (ORDERS | TAKING)[kind]}}])
    node = talk.node()
    talk.boot()
    assert fired(talk) == [False]
    talk.wait(30)
    if "step" in on:
        talk.reached(f"{node['id']}-0", 0, 5)
    assert fired(talk) == [True]
    assert [event.order["order"] for event in orders(talk)] == [kind] * (kind in ORDERS)


def test_what_is_ordered_waits_for_a_machine_that_has_booted():
    talk = Talk([{"on": {"after_s": 0}, "do": {"disk_full": True}}])
    talk.node()
    assert fired(talk) == [False]
    talk.boot()
    assert fired(talk) == [True]


@pytest.mark.parametrize("answer", [{"killed": None}, {"error": "OSError: x"}, {"ignored": "it ended"}])
def test_a_machine_that_could_not_do_it_leaves_the_fault_unfired_and_the_next_one_armed(answer):
    faults = [{"on": {"step": step}, "do": {"kill": "train.py"}} for step in (5, 9)]
    talk = Talk(faults)
    node = talk.node()
    talk.boot()
    machine = f"{node['id']}-0"
    talk.reached(machine, 0, 5)
    talk.events += talk.core.tell(Answered(machine, orders(talk)[0].fault, answer), talk.now)
    first = script.shown(talk.world)[0]
    assert (first["fired_at"], bool(first["missed"])) == (None, True)
    talk.reached(machine, 0, 6)
    talk.reached(machine, 1, 9)
    assert fired(talk) == [False, True]


@pytest.mark.parametrize(
    "deed",
    [{"kill": ""}, {"hang": True}, {"device_held": 3}, {"slow_disk": {}}, {"key_delay": True},
     {"ssh_drop": {"for_s": "x"}}, {"slow_network": {"delay_s": -1}}, {"device_fault": {}},
     {"disk_full": {"for_s": None}}, {"node_state": {"state": "READY"}}, {"node_state": "REPAIRING"},
     {"node_state": {"state": "RESTARTING", "then": "UNKNOWN"}}, {"node_state": {"state": "HIDING", "for_s": -1}}],
)  # fmt: skip
def test_an_order_that_lacks_what_it_needs_is_refused(deed):
    with pytest.raises(script.BadScript, match=f"fault 1: `{next(iter(deed))}`"):
        Talk([{"on": {"after_s": 1}, "do": deed}])


@pytest.mark.parametrize(
    "deed",
    [{"broken_stream": True}, {"broken_stream": {"after_bytes": -1}}, {"broken_stream": {"after_bytes": 1, "for_s": 1}},
     {"stalled_stream": {"after_bytes": 1}}, {"stalled_stream": {"after_bytes": "x", "for_s": 1}}],
)  # fmt: skip
def test_a_cut_that_does_not_say_where_is_refused(deed):
    with pytest.raises(script.BadScript, match=r"fault 1: .* numbers"):
        Talk([{"on": {"method": "storage.objects.get"}, "do": deed}])


@pytest.mark.parametrize("deed", [{"queue_s": 60}, {"unreachable": ["us-central1-a"]}])
def test_a_fault_at_a_method_that_cannot_suffer_it_is_refused(deed):
    with pytest.raises(script.BadScript, match="happens only to"):
        Talk([{"on": {"method": "tpu.nodes.create"}, "do": deed}])
