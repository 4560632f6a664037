"""What a fault does to a machine, and which machine it hits. Calls are struck in core.py."""

from __future__ import annotations

from typing import Any

from tpuops.localcloud.core import script
from tpuops.localcloud.core.compute import transitions as instances
from tpuops.localcloud.core.events import Control
from tpuops.localcloud.core.scene import Scene
from tpuops.localcloud.core.tpu import transitions as nodes
from tpuops.localcloud.core.world import Document


def strike(scene: Scene, machine: Document, deed: dict[str, Any]) -> None:
    """Do one of `script.MACHINE_DEEDS` to a machine."""
    kind, value = next(iter(deed.items()))
    if kind == "preempt":
        preempt(scene, machine)
        return
    order: dict[str, Any] = {"order": kind}
    if kind == "kill":
        order["match"] = str(value)
    elif isinstance(value, dict):
        order.update(value)
    scene.events.append(Control(machine["id"], order))


def preempt(scene: Scene, machine: Document) -> None:
    """Google takes the node or the instance that the machine belongs to."""
    if machine["kind"] == "tpu":
        preempt_node(scene, machine["project"], machine["zone"], machine["name"])
    else:
        instances.preempt(scene, f"{machine['project']}/{machine['zone']}/{machine['name']}")


def preempt_node(scene: Scene, project: str, zone: str, name: str) -> None:
    """Google takes a node, also one that has no machine yet because it is still being created."""
    nodes.preempt(scene, f"projects/{project}/locations/{zone}/nodes/{name}")


def target(scene: Scene, pattern: str, name: str = "") -> Document | None:
    """The machine a fault means: one of the resource called `name`, else the first running TPU worker, else any VM."""
    running = [machine for _, machine in scene.world.items("machine") if machine["running"]]
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
