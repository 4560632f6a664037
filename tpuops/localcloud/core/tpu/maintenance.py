"""Maintenance of nodes: the notice a machine and its node show, and the reboot that follows.

Imitated: real maintenance takes minutes to hours and may move a node to other hardware; here it is a notice and a
reboot (facts: google-cloud.md 2.1, 2.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.localcloud.core import machines
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Action, Answer, Call, Scene
from tpuops.localcloud.core.tpu import operations, queue_life, transitions
from tpuops.localcloud.core.tpu.states import NODE_VERBS, QUEUE_VERBS
from tpuops.localcloud.core.world import Document

NOTICE_S = 1.0
WINDOW_S = 3600.0


def perform(call: Call) -> Answer:
    """POST .../nodes/N:performMaintenance (v2alpha1): at once."""
    name = _node(call)
    announce(call.scene, name)
    return _admit(call, name, 0.0)


def simulate(call: Call) -> Answer:
    """POST .../nodes/N:simulateMaintenanceEvent (v2alpha1): a notice first."""
    name = _node(call)
    announce(call.scene, name)
    return _admit(call, name, NOTICE_S * call.scene.profile.scale)


def perform_queued(call: Call) -> Answer:
    """POST .../queuedResources/Q:performMaintenanceQueuedResource (v2alpha1)."""
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/queuedResources/{call.params['queued']}"
    queue = call.world.get(queue_life.KIND, name)
    if queue is None:
        raise refuse("tpu.absent", name=name)
    state = queue["shown"]["state"]["state"]
    if state not in QUEUE_VERBS["maintenance"]:
        raise refuse("tpu.state", verb="maintenance", state=state, eid=call.scene.draw.eid())
    for node in queue_life.nodes_of(call.scene, queue):
        name_of_node = node["shown"]["name"]
        announce(call.scene, name_of_node)
        call.scene.later(call.latency, "tpu.maintain", node=name_of_node, operation="", failure={})
    return operations.begin(call, "performMaintenance", name, action="queue.reset")


def announce(scene: Scene, name: str) -> None:
    """Node and machines show that maintenance is under way."""
    node = scene.world.get(transitions.KIND, name)
    if node is None:
        return
    window = {
        "type": "UNSCHEDULED",
        "canReschedule": False,
        "maintenanceStatus": "ONGOING",
        "windowStartTime": timestamp(scene.now),
        "windowEndTime": timestamp(scene.now + WINDOW_S),
        "latestWindowStartTime": timestamp(scene.now),
    }
    node["shown"].update(upcomingMaintenance=window, health="UNHEALTHY_MAINTENANCE")
    scene.world.put(transitions.KIND, name, node)
    machines.notify(scene, node["machines"], {"maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE", "window": window})


def maintained(scene: Scene, timer: Document) -> None:
    """The machines reboot, and the node is as before."""
    node = scene.world.get(transitions.KIND, timer["node"])
    if node is not None:
        node["shown"].pop("upcomingMaintenance", None)
        node["busy"] = "" if node["busy"] == timer["operation"] else node["busy"]
        if node["shown"]["state"] == "READY":
            node["shown"]["health"] = "HEALTHY"
            machines.notify(scene, node["machines"], {})
            machines.halt(scene, node["machines"])
            machines.boot(scene, node["machines"])
        scene.world.put(transitions.KIND, timer["node"], node)
    if timer["operation"]:
        operations.succeed(scene, timer["operation"], node["shown"] if node else None)


def sicken(scene: Scene, name: str, health: str, symptom: str, for_s: float) -> None:
    """The node says it is unwell, and gets well after `for_s` seconds (0: never); the symptom stays in its list."""
    node = scene.world.get(transitions.KIND, name)
    if node is None or node["shown"]["state"] != "READY":
        return
    node["shown"].update(health=health, healthDescription="Said by a fault script.")
    if symptom:
        told = {"createTime": timestamp(scene.now), "symptomType": symptom, "workerId": "0"}
        node["shown"]["symptoms"] = [*node["shown"].get("symptoms", []), told]
    scene.world.put(transitions.KIND, name, node)
    if for_s:
        scene.later(for_s, "tpu.recover", node=name)


def recovered(scene: Scene, timer: Document) -> None:
    """It is well again."""
    node = scene.world.get(transitions.KIND, timer["node"])
    if node is not None and node["shown"]["state"] == "READY":
        node["shown"]["health"] = "HEALTHY"
        node["shown"].pop("healthDescription", None)
        scene.world.put(transitions.KIND, timer["node"], node)


def _node(call: Call) -> str:
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/nodes/{call.params['node']}"
    node = call.world.get(transitions.KIND, name)
    if node is None:
        raise refuse("tpu.absent", name=name)
    state = node["shown"]["state"]
    if state not in NODE_VERBS["maintenance"]:
        raise refuse("tpu.state", verb="maintenance", state=state, eid=call.scene.draw.eid())
    if node["busy"]:
        raise refuse("tpu.busy", name=name, operation=node["busy"])
    return name


def _admit(call: Call, name: str, notice_s: float) -> Document:
    facts: Mapping[str, Any] = {"action": "tpu.maintain", "after_s": notice_s}
    operation = operations.begin(call, "maintenance", name, **facts)
    node = call.world.get(transitions.KIND, name)
    assert node is not None
    call.world.put(transitions.KIND, name, {**node, "busy": operation["name"]})
    return operation


ACTIONS: Mapping[str, Action] = {"tpu.maintain": maintained, "tpu.recover": recovered}
