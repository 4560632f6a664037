"""What has to change, for every state a resource can be in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pure.builders import OWNED, a_bucket, a_desired, a_node, a_vm, an_observed
from tpuops.errors import Conflict
from tpuops.plan import Role, Verb, changes
from tpuops.resources import Desired, Disk, Link, Node, Observed

NODE_STATES = {
    "READY": Verb.KEEP,
    "CREATING": Verb.WAIT,
    "STARTING": Verb.WAIT,
    "RESTARTING": Verb.WAIT,
    "REPAIRING": Verb.WAIT,
    "REIMAGING": Verb.WAIT,
    "STOPPED": Verb.START,
    "STOPPING": Verb.START,
    "DELETING": Verb.REPLACE,
    "PREEMPTED": Verb.REPLACE,
    "TERMINATED": Verb.REPLACE,
    "UNKNOWN": Verb.REPLACE,
    "A_STATE_OF_TOMORROW": Verb.REPLACE,
}


def test_nothing_stands_so_everything_is_created_bucket_first() -> None:
    plan = changes(a_desired(), Observed(None, None, None, "1"))
    assert [(change.role, change.verb) for change in plan.changes] == [
        (Role.BUCKET, Verb.CREATE),
        (Role.NODE, Verb.CREATE),
        (Role.VM, Verb.CREATE),
    ]


def test_everything_stands_so_nothing_has_an_effect() -> None:
    assert changes(a_desired(), an_observed()).effects == ()


@pytest.mark.parametrize(("state", "verb"), NODE_STATES.items())
def test_each_node_state_has_its_verb(state: str, verb: Verb) -> None:
    change = changes(a_desired(), an_observed(node=a_node(state))).of(Role.NODE)
    assert change is not None
    assert change.verb is verb
    assert change.reason


@pytest.mark.parametrize("state", ["TERMINATED", "STOPPED", "SUSPENDED", "STOPPING"])
def test_a_vm_that_does_not_run_is_replaced_because_its_end_cannot_move(state: str) -> None:
    change = changes(a_desired(), an_observed(vm=a_vm(state))).of(Role.VM)
    assert change is not None
    assert change.verb is Verb.REPLACE


def test_no_vm_asked_for_means_no_vm_in_the_plan_unless_ours_stands() -> None:
    assert changes(a_desired(vm=False), an_observed(vm=None)).of(Role.VM) is None
    assert changes(a_desired(vm=False), an_observed(vm=a_vm(labels={}))).of(Role.VM) is None
    change = changes(a_desired(vm=False), an_observed()).of(Role.VM)
    assert change is not None
    assert change.verb is Verb.DELETE


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"node": a_node(labels={"tpuops": "v1", "tpuops-env": "tiny", "tpuops-owner": "bob"})}, "labels"),
        ({"vm": a_vm(labels={})}, "labels"),
        ({"node": a_node(accelerator="v3-32")}, "v3-32"),
        ({"node": a_node(runtime="tpu-vm-tf-2.17.0-pjrt")}, "runtime"),
        ({"vm": a_vm(machine_type="n2-standard-8")}, "machine type"),
        ({"bucket": a_bucket(project_number="999")}, "999"),
        ({"bucket": a_bucket(location="europe-west4")}, "europe-west4"),
        ({"node": a_node(spot=True)}, "provisioning spot"),
        ({"node": a_node(link=Link("other"))}, "network other"),
        ({"node": a_node(link=Link(external=False))}, "addresses internal only"),
        ({"node": a_node(disks=(Disk("data"),))}, r"data disks data \(read-only\)"),
        ({"vm": a_vm(link=Link(external=False))}, "addresses internal only"),
    ],
)
def test_what_only_a_person_can_decide_is_refused_with_a_hint(found: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words) as caught:
        changes(a_desired(), an_observed(**found))
    assert caught.value.hint


LABELLED = replace(
    a_desired(),
    node=replace(a_desired().node, labels={**OWNED.labels, "team": "vision", "bill": ""}),
    vm=replace(a_desired().vm, labels={**OWNED.labels, "team": "sight"}),
)
BILL = ("tpu", "labels", "bill")
IN_PLACE = "; what runs there is not touched"


def rows(found: Observed, wanted: Desired = LABELLED) -> list[tuple[Any, ...]]:
    return [(change.role, change.verb, change.reason, change.field) for change in changes(wanted, found).changes[1:]]


def test_labels_that_differ_are_changed_in_place_each_named_with_its_field() -> None:
    node, vm = a_node(labels={**OWNED.labels, "team": "speech", "theirs": "x"}), a_vm()
    assert rows(an_observed(node=node, vm=vm)) == [
        ("node", "change", f"tpu.labels.bill: none -> (empty), tpu.labels.team: speech -> vision{IN_PLACE}", BILL),
        ("vm", "change", f"vm.labels.team: none -> sight{IN_PLACE}", ("vm", "labels", "team")),
    ]


@pytest.mark.parametrize(("state", "verb"), NODE_STATES.items())
def test_a_node_is_relabelled_once_it_stands_and_one_made_anew_has_its_labels(state: str, verb: Verb) -> None:
    verbs = [row[1] for row in rows(an_observed(node=a_node(state))) if row[0] is Role.NODE]
    assert verbs == {Verb.KEEP: ["change"], Verb.REPLACE: ["replace"]}.get(verb, [verb, "change"])


@pytest.mark.parametrize(("state", "verbs"), [("STAGING", ["wait", "change"]), ("TERMINATED", ["replace"])])
def test_a_vm_is_relabelled_once_it_stands_and_one_made_anew_has_its_labels(state: str, verbs: list[str]) -> None:
    assert [row[1] for row in rows(an_observed(vm=a_vm(state))) if row[0] is Role.VM] == verbs


def test_labels_that_the_file_does_not_name_are_nobodys_to_change() -> None:
    node = a_node(labels={**LABELLED.node.labels, "theirs": "x"})
    vm = a_vm(labels={**LABELLED.vm.labels, "goog-ops-agent": "v2"})  # type: ignore[union-attr]
    assert changes(LABELLED, an_observed(node=node, vm=vm)).effects == ()


def test_a_machine_with_other_differences_is_refused_and_not_relabelled_first() -> None:
    with pytest.raises(Conflict, match="runtime"):
        changes(LABELLED, an_observed(node=a_node(runtime="tpu-vm-tf-2.17.0-pjrt")))


@given(state=st.text(st.characters(categories=["Lu"]), min_size=1))
def test_no_state_makes_a_foreign_node_part_of_a_plan(state: str) -> None:
    foreign: Node = a_node(state, labels={"tpuops-env": "tiny"})
    with pytest.raises(Conflict):
        changes(a_desired(), an_observed(node=foreign))
