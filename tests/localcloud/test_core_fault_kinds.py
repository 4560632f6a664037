"""Every kind of fault that a script can name fires, and one that could do nothing has not fired."""

import pytest

from tests.localcloud.talk import NODES, Talk
from tpuops.localcloud.core import script
from tpuops.localcloud.core.events import Answered, Control

ERROR = {"http": 503, "status": "UNAVAILABLE", "message": "x"}
CALLS = {
    "error": ERROR,
    "fail_operation": {"code": 8, "message": "x"},
    "lose_reply": True,
    "drop_request": True,
    "delay_s": 2.5,
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
TAKING = {"preempt": {"notice_s": 1}, "maintenance": True, "unhealthy": {"for_s": 1}}
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
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {kind: CALLS[kind]}}])
    assert fired(talk) == [False]
    talk.call("POST", NODES, {"acceleratorType": "v3-8", "runtimeVersion": "r"}, nodeId="n1")
    assert fired(talk) == [True]


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
     {"disk_full": {"for_s": None}}],
)  # fmt: skip
def test_an_order_that_lacks_what_it_needs_is_refused(deed):
    with pytest.raises(script.BadScript, match=f"fault 1: `{next(iter(deed))}`"):
        Talk([{"on": {"after_s": 1}, "do": deed}])
