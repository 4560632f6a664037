"""What a fault does to a machine, and which machine it hits. Calls are struck in core.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tpuops.localcloud.core import machines, script
from tpuops.localcloud.core.compute import transitions as instances
from tpuops.localcloud.core.events import Answered, Control
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.tpu import away, maintenance
from tpuops.localcloud.core.tpu import transitions as nodes
from tpuops.localcloud.core.world import Document

NEEDS_ONE = ("killed", "hung", "held")
"""What an order's answer names where it found the process it was about."""


def strike(scene: Scene, machine: Document, deed: dict[str, Any], fault: str = "") -> None:
    """Do one of `script.MACHINE_DEEDS` to a machine; `fault` is the key of the fault that says so."""
    kind, value = next(iter(deed.items()))
    if kind in _TAKING:
        _TAKING[kind](scene, machine, value if isinstance(value, dict) else {})
        return
    order: dict[str, Any] = {"order": kind}
    if isinstance(value, str):
        order["match"] = value
    elif isinstance(value, dict):
        order.update(value)
    scene.events.append(Control(machine["id"], order, fault))


def answered(scene: Scene, notice: Answered) -> None:
    """A machine says what it did: where that is nothing, the fault has not fired."""
    failed = notice.answer.get("error") or notice.answer.get("ignored") or ""
    if not failed and any(notice.answer.get(name, "") is None for name in NEEDS_ONE):
        failed = "no such process"
    if failed:
        script.miss(scene.world, notice.fault, str(failed))


def preempt(scene: Scene, machine: Document, how: Mapping[str, Any]) -> None:
    """Google takes the node or the instance that the machine belongs to, at once or after a notice."""
    notice_s = float(how.get("notice_s", 0.0))
    if notice_s:
        machines.notify(scene, _siblings(scene, machine), {"preempted": "TRUE"})
        scene.later(notice_s, "machine.preempt", machine=machine["id"], gone=bool(how.get("gone")))
    else:
        _take(scene, machine, bool(how.get("gone")))


def preempted(scene: Scene, timer: Document) -> None:
    """The notice is over; a machine that went by itself meanwhile is left alone."""
    machine = scene.world.get("machine", timer["machine"])
    if machine is not None and machine["running"]:
        _take(scene, machine, timer["gone"])


def maintain(scene: Scene, machine: Document, how: Mapping[str, Any]) -> None:
    """A node shows that it is under maintenance and reboots after the notice; an instance only reboots."""
    notice_s = float(how.get("notice_s", 0.0))
    if machine["kind"] == "tpu":
        maintenance.announce(scene, _node_of(machine))
        scene.later(notice_s, "tpu.maintain", node=_node_of(machine), operation="", failure={})
        return
    machines.notify(scene, [machine["id"]], {"maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
    scene.later(notice_s, "machine.reboot", machine=machine["id"])


def rebooted(scene: Scene, timer: Document) -> None:
    """The machine boots again after maintenance, where it still runs."""
    machine = scene.world.get("machine", timer["machine"])
    if machine is not None and machine["running"]:
        machines.notify(scene, [machine["id"]], {})
        machines.halt(scene, [machine["id"]])
        machines.boot(scene, [machine["id"]])


def sicken(scene: Scene, machine: Document, how: Mapping[str, Any]) -> None:
    """The node that the machine belongs to says it is unwell."""
    health = str(how.get("health", "UNHEALTHY_TENSORFLOW"))
    symptom = str(how.get("symptom", ""))
    maintenance.sicken(scene, _node_of(machine), health, symptom, float(how.get("for_s", 0.0)))


def take_out(scene: Scene, machine: Document, how: Mapping[str, Any]) -> None:
    """The node that the machine belongs to is repaired, restarted, reimaged, hidden or terminated."""
    then = str(how.get("then", "READY"))
    away.take_out(scene, _node_of(machine), str(how["state"]), float(how.get("for_s", 0.0)), then)


def _node_of(machine: Document) -> str:
    return f"projects/{machine['project']}/locations/{machine['zone']}/nodes/{machine['name']}"


def _siblings(scene: Scene, machine: Document) -> list[str]:
    """All workers of the machine's node, or the machine itself."""
    node = scene.world.get(nodes.KIND, _node_of(machine)) if machine["kind"] == "tpu" else None
    return list(node["machines"]) if node else [machine["id"]]


def _take(scene: Scene, machine: Document, gone: bool) -> None:
    if machine["kind"] == "tpu":
        nodes.preempt(scene, _node_of(machine), gone=gone)
    else:
        instances.preempt(scene, f"{machine['project']}/{machine['zone']}/{machine['name']}")


def preempt_node(scene: Scene, project: str, zone: str, name: str, how: Any = True) -> bool:
    """Google takes a node, also one that has no machine yet because it is still being created; False: there is none."""
    gone = isinstance(how, Mapping) and bool(how.get("gone"))
    return nodes.preempt(scene, f"projects/{project}/locations/{zone}/nodes/{name}", gone=gone)


def target(scene: Scene, fault: Mapping[str, Any], name: str = "") -> Document | None:
    """The machine a fault means: one of the resource called `name`, else the first running TPU worker, else any VM.

    What takes orders has booted.
    """
    pattern = str(fault["on"].get("machine", "*"))
    running = [machine for _, machine in scene.world.items("machine") if machine["running"]]
    if not script.OF_NODES.isdisjoint(fault["do"]):
        running = [machine for machine in running if machine["kind"] == "tpu"]
    if not script.ORDERS.keys().isdisjoint(fault["do"]):
        running = [machine for machine in running if machine.get("booted")]
    meant = [machine for machine in running if script.matches(machine, pattern)]
    named = [machine for machine in meant if machine["name"] == name]
    workers = [machine for machine in meant if machine["kind"] == "tpu"]
    return next(iter([*named, *workers, *meant]), None)


def tell_watchers(scene: Scene, only: str = "") -> None:
    """Tell the running machines (or one) which step to look out for, or to stop looking."""
    order = script.watch_order(scene.world)
    if order is None and only:
        return
    pattern = "*"
    armed = script.armed_step(scene.world)
    if armed is not None:
        pattern = str(armed[1]["on"].get("machine", "*"))
    for machine_id, machine in scene.world.items("machine"):
        if not machine["running"] or not machine.get("booted") or (only and machine_id != only):
            continue
        if order is not None and script.matches(machine, pattern):
            scene.events.append(Control(machine_id, order))
        elif not only:
            scene.events.append(Control(machine_id, {"order": "unwatch"}))


_TAKING: Mapping[str, Callable[[Scene, Document, Mapping[str, Any]], None]] = {
    "preempt": preempt,
    "maintenance": maintain,
    "unhealthy": sicken,
    "node_state": take_out,
}
ACTIONS: Mapping[str, Action] = {"machine.preempt": preempted, "machine.reboot": rebooted}
