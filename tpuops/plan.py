"""What has to change so that what stands becomes what is desired: values in, values out.

`changes` is the whole of it. The plan that is printed is the plan that `stages.apply` executes. Nothing here asks the
cloud, and nothing here deletes anything that is not ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tpuops.errors import Conflict
from tpuops.facts import catalogue
from tpuops.resources import (
    METADATA_BUCKET,
    TRANSITIONAL_STATES,
    Bucket,
    Desired,
    Disk,
    Link,
    Node,
    NodeSpec,
    Observed,
    Owned,
    Vm,
    VmSpec,
)


class Differs(Conflict):
    """What stands is not what the file asks for at `field`, and only making it anew would change that."""

    def __init__(self, field: tuple[str, ...], message: str, *, resource: str, hint: str) -> None:
        super().__init__(message, resource=resource, hint=hint)
        self.field = field


class Role(StrEnum):
    """The three nouns of an environment."""

    BUCKET = "bucket"
    NODE = "node"
    VM = "vm"


class Verb(StrEnum):
    """What happens to one resource. REPLACE deletes first; WAIT only waits for a change already under way.

    CHANGE is done in place, under whatever runs there: only what the service promises to leave it alone for.
    """

    KEEP = "keep"
    CREATE = "create"
    CHANGE = "change"
    START = "start"
    WAIT = "wait"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One resource's part of a plan, with the reason that people read, and what in the file asks for it if anything
    does."""

    role: Role
    verb: Verb
    name: str
    reason: str
    field: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Every resource in the order bucket, node, vm: once, or a second time where it is changed after it came up."""

    changes: tuple[Change, ...]

    @property
    def effects(self) -> tuple[Change, ...]:
        """The changes that are not KEEP; empty means that `up` only reads."""
        return tuple(change for change in self.changes if change.verb is not Verb.KEEP)

    def of(self, role: Role) -> Change | None:
        """The first change of one role, None where the environment has no such resource."""
        return next((change for change in self.changes if change.role is role), None)

    def in_place(self, role: Role) -> Change | None:
        """What is changed of one role once it stands, None where nothing is."""
        return next((change for change in self.changes if change.role is role and change.verb is Verb.CHANGE), None)


def changes(desired: Desired, observed: Observed) -> Plan:
    """Compare and decide.

    Raises:
        Conflict: a name is taken by a resource that is not ours, or ours differs in a way only `down` can mend.
    """
    rows = [_bucket(desired, observed), *_node(desired, observed.node)]
    if desired.vm is not None:
        rows += _vm(desired, observed.vm)
    elif observed.vm is not None and desired.owned.owns(observed.vm.labels):
        rows.append(Change(Role.VM, Verb.DELETE, observed.vm.name, "it stands, and the file asks for no VM"))
    return Plan(tuple(rows))


def _bucket(desired: Desired, observed: Observed) -> Change:
    name, bucket = desired.bucket.name, observed.bucket
    if bucket is None:
        return Change(Role.BUCKET, Verb.CREATE, name, f"no such bucket; it belongs in {desired.bucket.location}")
    _check_bucket(desired, bucket, observed.project_number)
    return Change(Role.BUCKET, Verb.KEEP, name, f"stands in {bucket.location}")


def _check_bucket(desired: Desired, bucket: Bucket, project_number: str) -> None:
    if bucket.project_number != project_number:
        raise Differs(
            ("bucket", "name"),
            f"bucket {bucket.name} belongs to project number {bucket.project_number}, not to {project_number}",
            resource=bucket.name,
            hint="set `bucket.name` in the environment file to a bucket of this project",
        )
    if not catalogue.location_holds(bucket.location, desired.bucket.location, bucket.regions):
        raise Differs(
            ("bucket", "name"),
            f"bucket {bucket.name} is in {bucket.location}, but the zone needs {desired.bucket.location}",
            resource=bucket.name,
            hint="a bucket cannot move: set another `bucket.name`, or a zone of the bucket's region",
        )


def _node(desired: Desired, node: Node | None) -> tuple[Change, ...]:
    spec = desired.node
    if node is None:
        return (Change(Role.NODE, Verb.CREATE, spec.name, f"no such node; {spec.accelerator} in {spec.place.zone}"),)
    _check_owner("node", spec.name, desired.owned, node)
    verb, reason = _node_verb(node)
    if verb is not Verb.REPLACE:
        _check_same("accelerator", ("tpu", "accelerator"), spec.name, node.accelerator, spec.accelerator)
        _check_same("runtime", ("tpu", "runtime"), spec.name, node.runtime, spec.runtime)
        _check_same("provisioning", ("tpu", "provisioning"), spec.name, _provisioning(node), _provisioning(spec))
        _check_disks(spec, node)
        home = node.metadata.get(METADATA_BUCKET, desired.bucket.name)
        _check_same("home bucket", ("bucket", "name"), spec.name, home, desired.bucket.name)
        _check_attached(spec, node)
    return _and_labels(Change(Role.NODE, verb, spec.name, reason), spec, node)


def is_to_replace(found: Node | Vm) -> bool:
    """Whether what stands is of no use any more, and only its deletion helps."""
    verb, _ = _node_verb(found) if isinstance(found, Node) else _vm_verb(found)
    return verb is Verb.REPLACE


def _node_verb(node: Node) -> tuple[Verb, str]:
    """What a node in this state needs; a state nobody knows is replaced, as no call repairs it."""
    if node.is_lost:
        return Verb.REPLACE, f"it is {node.state}, which only deletion leaves"
    if node.state == "DELETING":
        return Verb.REPLACE, "it is being deleted; the name is free only afterwards"
    if node.state in {"STOPPED", "STOPPING"}:
        return Verb.START, f"it is {node.state}"
    if node.state in TRANSITIONAL_STATES:
        return Verb.WAIT, f"it is {node.state}"
    if node.is_ready:
        return Verb.KEEP, "READY"
    return Verb.REPLACE, f"it is {node.state}, which no call repairs"


def _vm(desired: Desired, vm: Vm | None) -> tuple[Change, ...]:
    spec = desired.vm
    assert spec is not None
    if vm is None:
        return (Change(Role.VM, Verb.CREATE, spec.name, f"no such instance; {spec.machine_type} beside the TPU"),)
    _check_owner("vm", spec.name, desired.owned, vm)
    _check_same("machine type", ("vm", "machine_type"), spec.name, vm.machine_type, spec.machine_type)
    _check_attached(spec, vm)
    verb, reason = _vm_verb(vm)
    return _and_labels(Change(Role.VM, verb, spec.name, reason), spec, vm)


def _vm_verb(vm: Vm) -> tuple[Verb, str]:
    """What an instance in this state needs."""
    if vm.state == "RUNNING":
        return Verb.KEEP, "RUNNING"
    if vm.state in {"PROVISIONING", "STAGING", "REPAIRING"}:
        return Verb.WAIT, f"it is {vm.state}"
    return Verb.REPLACE, f"it is {vm.state}; its end was set at creation and cannot move"


def _and_labels(change: Change, spec: NodeSpec | VmSpec, found: Node | Vm) -> tuple[Change, ...]:
    """The change, and after it that of the labels that the file names and that differ; what is made anew has them.

    Labels that the file does not name are somebody else's, or were once ours: no record tells which, so they stay.
    """
    differ = [key for key, value in sorted(spec.labels.items()) if found.labels.get(key) != value]
    if not differ or change.verb is Verb.REPLACE:
        return (change,)
    section = "tpu" if change.role is Role.NODE else "vm"
    edits = (f"{section}.labels.{key}: {_said(found.labels.get(key))} -> {_said(spec.labels[key])}" for key in differ)
    reason = f"{', '.join(edits)}; what runs there is not touched"
    labels = Change(change.role, Verb.CHANGE, spec.name, reason, (section, "labels", differ[0]))
    return (labels,) if change.verb is Verb.KEEP else (change, labels)


def _said(label: str | None) -> str:
    return "none" if label is None else label or "(empty)"


def _check_owner(kind: str, name: str, owned: Owned, found: Node | Vm) -> None:
    if not owned.owns(found.labels):
        raise Conflict(
            f"{kind} {name} exists and does not carry this environment's labels",
            resource=name,
            hint="rename the environment file, or remove the other resource yourself",
        )


def _provisioning(of: Node | NodeSpec) -> str:
    return "spot" if of.spot else "on-demand"


def _check_disks(spec: NodeSpec, node: Node) -> None:
    if node.disks is not None:
        _check_same("data disks", ("tpu", "disks"), spec.name, _listed(node.disks), _listed(spec.disks))


def _listed(disks: Iterable[Disk]) -> str:
    return ", ".join(f"{disk.name} ({'read-only' if disk.read_only else 'read-write'})" for disk in disks) or "none"


def _check_attached(spec: NodeSpec | VmSpec, found: Node | Vm) -> None:
    """Network, addresses and account, as far as the file names them and the API shows them."""
    section = "tpu" if isinstance(spec, NodeSpec) else "vm"
    if spec.service_account:
        _check_same(
            "service account", (section, "service_account"), spec.name, found.service_account, spec.service_account
        )
    if found.link is not None:
        _check_same("network", ("tpu", "network"), spec.name, found.link.network, _last(spec.link.network))
        if spec.link.subnetwork:
            _check_same(
                "subnetwork", ("tpu", "subnetwork"), spec.name, found.link.subnetwork, _last(spec.link.subnetwork)
            )
        _check_same("addresses", ("ssh", "reach"), spec.name, _reach(found.link), _reach(spec.link))


def _reach(link: Link) -> str:
    return "external" if link.external else "internal only"


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _check_same(what: str, field: tuple[str, ...], name: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise Differs(
            field,
            f"{name} has {what} {found or 'none'}, the environment file asks for {wanted}",
            resource=name,
            hint="put it back, or `tpuops down` first and then `tpuops up`",
        )
