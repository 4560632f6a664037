"""Apply: carry out a plan, and believe only a second look.

The bucket comes first because lock and records live in it; then VM and TPU are in flight together. A change that was
admitted may still fail a minute later, so each is waited for and then looked at. Nothing is done without the fence.
What is changed in place comes last, once the machine stands, and leaves alone whatever runs there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from tpuops.clock import Clock
from tpuops.cloud.port import Cloud, Operation
from tpuops.errors import CloudError, Conflict, NoCapacity, TpuopsError, Transient
from tpuops.journal import Journal
from tpuops.plan import Change, Plan, Role, Verb, is_to_replace
from tpuops.resources import Desired, Node, Vm
from tpuops.switch import Keeper

Machine = TypeVar("Machine", Node, Vm)
Due = Callable[[Node | Vm], bool]

CREATE_TIMEOUT_S = 900.0
DELETE_TIMEOUT_S = 600.0
SETTLE_S = 1.0
LABEL_TRIES = 5
LABEL_TIMEOUT_S = 120.0


async def _nothing_to_leave(keeper: Keeper) -> int:
    raise AssertionError("there is no lease to leave")


@dataclass(frozen=True, slots=True)
class Crew:
    """What a stage acts with: the cloud, the fence that stands before each change, time, and the record.

    `tell` takes a function that says how far the work is; whoever renews the lease asks it. `leave` leaves the lease to
    a machine, `forget` gives it back to none (as `Lease` does).
    """

    cloud: Cloud
    fence: Callable[[], Awaitable[None]]
    clock: Clock
    journal: Journal
    tell: Callable[[Callable[[], Mapping[str, Any]]], None] = lambda progress: None
    leave: Callable[[Keeper], Awaitable[int]] = _nothing_to_leave
    forget: Callable[..., None] = lambda but="": None


async def make_bucket(plan: Plan, desired: Desired, crew: Crew) -> None:
    """Create the home bucket where the plan says so; one that is already ours by a lost reply is fine."""
    change = plan.of(Role.BUCKET)
    if change is None or change.verb is not Verb.CREATE:
        return
    crew.journal.record("bucket.create", name=change.name, reason=change.reason)
    try:
        await crew.cloud.create_bucket(desired.bucket)
    except Conflict:
        found = await crew.cloud.bucket(desired.bucket.name)
        if found is None or found.project_number != await crew.cloud.project_number(desired.bucket.project):
            raise


async def make_machines(plan: Plan, desired: Desired, crew: Crew) -> Node:
    """Carry out the changes of node and VM together and return the node as a second look shows it.

    Raises:
        NoCapacity, QuotaExceeded, Refused, Transient: the node's error before the VM's; the other is let finish.
    """
    node_done, vm_done = await asyncio.gather(
        _make_node(plan, desired, crew), _make_vm(plan, desired, crew), return_exceptions=True
    )
    for done in (node_done, vm_done):
        if isinstance(done, BaseException):
            raise done
    assert isinstance(node_done, Node)
    return node_done


async def _make_node(plan: Plan, desired: Desired, crew: Crew) -> Node:
    node = await _standing_node(plan, desired, crew)
    change, spec = plan.in_place(Role.NODE), desired.node
    if change is None:
        return node
    read = partial(_settled, desired, crew, {"READY"})
    write = lambda found, labels: crew.cloud.set_node_labels(spec.place, spec.name, labels)  # noqa: E731
    return await _relabelled(_Labelled(change, spec.labels, read, write), crew)


async def _standing_node(plan: Plan, desired: Desired, crew: Crew) -> Node:
    change = plan.of(Role.NODE)
    assert change is not None
    spec = desired.node
    if change.verb is Verb.REPLACE:
        await delete_node(desired, crew, change.reason, due=is_to_replace)
    if change.verb in {Verb.REPLACE, Verb.CREATE}:
        await _act(crew, change, lambda: crew.cloud.create_node(spec))
    elif change.verb is Verb.START:
        await _settled(desired, crew, {"STOPPED"})
        await _act(crew, change, lambda: crew.cloud.start_node(spec.place, spec.name))
    elif change.verb in {Verb.KEEP, Verb.CHANGE}:
        return await _settled(desired, crew, {"READY"})
    return await settle_node(desired, crew)


async def _make_vm(plan: Plan, desired: Desired, crew: Crew) -> Vm | None:
    change, spec = plan.of(Role.VM), desired.vm
    if change is not None and change.verb is Verb.DELETE:
        await delete_vm(desired, crew, change.reason)
    if change is None or spec is None:
        return None
    if change.verb is Verb.REPLACE:
        await delete_vm(desired, crew, change.reason, due=is_to_replace)
    if change.verb in {Verb.REPLACE, Verb.CREATE}:
        await _act(crew, change, lambda: crew.cloud.create_vm(spec))
    vm = await _settle_vm(desired, crew)
    if change.verb not in {Verb.KEEP, Verb.CHANGE}:
        crew.journal.record("vm.ready", name=vm.name, id=vm.id)
    labels = plan.in_place(Role.VM)
    if labels is None:
        return vm
    read = partial(_settle_vm, desired, crew)
    return await _relabelled(_Labelled(labels, spec.labels, read, crew.cloud.set_vm_labels), crew)


async def _act(crew: Crew, change: Change, admit: Callable[[], Awaitable[Operation]]) -> None:
    await crew.fence()
    crew.journal.record(f"{change.role}.{change.verb}", name=change.name, reason=change.reason)
    try:
        admitted = await admit()
        if change.role is Role.NODE:
            crew.forget()  # nothing of an earlier run lives on it
        await crew.cloud.wait(admitted, CREATE_TIMEOUT_S)
    except Conflict:
        # An earlier life of this controller may have created it: the look that follows tells whose it is.
        crew.journal.record(f"{change.role}.exists", name=change.name)


@dataclass(frozen=True, slots=True)
class _Labelled(Generic[Machine]):
    """Something that stands and is to carry `labels` too: how it is read, ours or not, and how they are written."""

    change: Change
    labels: Mapping[str, str]
    read: Callable[[], Awaitable[Machine]]
    write: Callable[[Machine, Mapping[str, str]], Awaitable[Operation]]


async def _relabelled(target: _Labelled[Machine], crew: Crew) -> Machine:
    """Add the labels to those that it has, and look again: a write replaces them all, and somebody else may write too.

    Raises:
        Conflict: they are still not there after `LABEL_TRIES` writes.
    """
    name = target.change.name
    crew.journal.record(f"{target.change.role}.change", name=name, what=target.change.reason)
    for _ in range(LABEL_TRIES):
        found = await target.read()
        if all(found.labels.get(key) == value for key, value in target.labels.items()):
            crew.journal.record(f"{target.change.role}.changed", name=name, id=found.id)
            return found
        await crew.fence()
        try:
            await crew.cloud.wait(await target.write(found, {**found.labels, **target.labels}), LABEL_TIMEOUT_S)
        except Conflict as error:
            crew.journal.record(f"{target.change.role}.contested", name=name, why=error.message)
            await crew.clock.sleep(SETTLE_S)
    raise Conflict(
        f"the labels of {name} are not what was written, {LABEL_TRIES} times: somebody else is changing them",
        resource=name,
        hint="find out who changes its labels, and run again; nothing else was touched",
    )


async def settle_node(desired: Desired, crew: Crew) -> Node:
    """Wait until the node is READY; raises `NoCapacity` where it was lost while being made."""
    node = await _settled(desired, crew, {"READY"})
    crew.journal.record("node.ready", name=node.name, id=node.id, workers=len(node.workers))
    return node


async def _settled(desired: Desired, crew: Crew, wanted: set[str]) -> Node:
    spec = desired.node
    deadline = crew.clock.monotonic() + CREATE_TIMEOUT_S
    while crew.clock.monotonic() < deadline:
        node = await crew.cloud.node(spec.place, spec.name)
        if node is None or node.is_lost:
            raise NoCapacity(
                f"{spec.name} was taken away while it was being made",
                method="tpu.nodes.get",
                resource=spec.name,
                hint="run again; for a lasting shortage set another zone",
            )
        if not desired.owned.owns(node.labels):
            raise Conflict(f"{spec.name} exists and is not ours", method="tpu.nodes.get", resource=spec.name)
        if node.state in wanted:
            return node
        await crew.clock.sleep(SETTLE_S)
    raise Transient(f"{spec.name} is still not {'/'.join(sorted(wanted))} after {CREATE_TIMEOUT_S:.0f} s")


async def _settle_vm(desired: Desired, crew: Crew) -> Vm:
    spec = desired.vm
    assert spec is not None
    deadline = crew.clock.monotonic() + CREATE_TIMEOUT_S
    while crew.clock.monotonic() < deadline:
        vm = await crew.cloud.vm(spec.place, spec.name)
        if vm is None:
            raise Transient(f"{spec.name} vanished while it was being made", resource=spec.name)
        if not desired.owned.owns(vm.labels):
            raise Conflict(f"{spec.name} exists and is not ours", resource=spec.name)
        if vm.state == "RUNNING":
            return vm
        await crew.clock.sleep(SETTLE_S)
    raise Transient(f"{spec.name} is still not RUNNING after {CREATE_TIMEOUT_S:.0f} s")


@dataclass(frozen=True, slots=True)
class _Target:
    """Something to delete: how it is read, how its deletion is asked for, whether it is `due` for what stands now."""

    role: Role
    name: str
    read: Callable[[], Awaitable[Node | Vm | None]]
    delete: Callable[[], Awaitable[Operation | None]]
    due: Due


def _whatever(found: Node | Vm) -> bool:
    return True


async def delete_node(desired: Desired, crew: Crew, reason: str, *, due: Due = _whatever) -> None:
    """Delete our node, if that is `due`, and wait until its name is free. Raises as `_delete`."""
    cloud, at = crew.cloud, desired.node
    read, delete = lambda: cloud.node(at.place, at.name), lambda: cloud.delete_node(at.place, at.name)
    await _delete(_Target(Role.NODE, at.name, read, delete, due), desired, crew, reason)


async def delete_vm(desired: Desired, crew: Crew, reason: str, *, due: Due = _whatever) -> None:
    """Delete our VM, asked for or not, if that is `due`, and wait until its name is free. Raises as `_delete`."""
    if desired.vm_at is None:
        return
    cloud, (place, name) = crew.cloud, desired.vm_at
    read, delete = lambda: cloud.vm(place, name), lambda: cloud.delete_vm(place, name)
    await _delete(_Target(Role.VM, name, read, delete, due), desired, crew, reason)


async def _delete(target: _Target, desired: Desired, crew: Crew, reason: str) -> None:
    """Raises:
    Conflict: it is not ours.
    Transient: by this look it is not due, so that the look it was decided on was old: look and compare again.
    """
    found = await target.read()
    if found is None:
        return
    if not desired.owned.owns(found.labels):
        raise Conflict(f"{target.name} is not ours and stays", resource=target.name)
    if not target.due(found):
        raise Transient(f"{target.name} is {found.state} by now, and stays", resource=target.name)
    await crew.fence()
    crew.journal.record(f"{target.role}.delete", name=target.name, id=found.id, reason=reason)
    await _finish(crew, await target.delete())
    await _gone(crew, target.read, target.name)
    crew.journal.record(f"{target.role}.gone", name=target.name, id=found.id)


async def stop_node(desired: Desired, crew: Crew, reason: str) -> None:
    """Stop our node and wait until it says STOPPED."""
    spec = desired.node
    await crew.fence()
    crew.journal.record("node.stop", name=spec.name, reason=reason)
    await _finish(crew, await crew.cloud.stop_node(spec.place, spec.name))
    await _settled(desired, crew, {"STOPPED"})


async def _finish(crew: Crew, operation: Operation | None) -> None:
    if operation is not None:
        await crew.cloud.wait(operation, DELETE_TIMEOUT_S)


async def _gone(crew: Crew, read: Callable[[], Awaitable[object | None]], name: str) -> None:
    deadline = crew.clock.monotonic() + DELETE_TIMEOUT_S
    while await read() is not None:
        if crew.clock.monotonic() > deadline:
            raise Transient(f"{name} is still listed {DELETE_TIMEOUT_S:.0f} s after its deletion", resource=name)
        await crew.clock.sleep(SETTLE_S)


def is_passing(error: TpuopsError) -> bool:
    """Whether provisioning may be tried again after this error."""
    return isinstance(error, (NoCapacity, Transient)) and isinstance(error, CloudError)
