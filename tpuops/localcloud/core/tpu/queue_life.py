"""What becomes of a queued resource: accepted, waiting, provisioning, active, suspended, failed, gone.

Called by the timer. A queued resource outlives its nodes: one that loses a node is suspended, keeps its quota and waits
for its deletion or a reset; it never queues again by itself (google-cloud.md 2.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.localcloud.core import machines
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.refusals import late
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.steps import step
from tpuops.localcloud.core.tpu import operations, queue_shape, transitions
from tpuops.localcloud.core.tpu.states import QUEUE_STEPS
from tpuops.localcloud.core.world import Document

KIND = "tpu.queue"
PLANS = ("queue.wait", "queue.provision", "queue.activate", "queue.suspended", "queue.expire", "queue.end")


def latency(scene: Scene, phase: str) -> float:
    """Seconds a phase takes by the profile."""
    return scene.profile.latency(f"tpu.queuedResources.{phase}")


def move(scene: Scene, queue: Document, state: str, by: str, error: Mapping[str, Any] | None = None) -> None:
    """The queued resource in its next state, as the table allows."""
    shown = queue["shown"]
    shown["state"] = queue_shape.state(step(QUEUE_STEPS, shown["state"]["state"], state), by, error)
    scene.world.put(KIND, shown["name"], queue)


def forget_plans(scene: Scene, name: str) -> None:
    """Whatever was to happen to it by itself, does not."""
    for action in PLANS:
        scene.cancel(action, queue=name)


def give_up_creation(scene: Scene, name: str) -> None:
    """A creation that was still being admitted fails."""
    for timer in scene.cancel("queue.accept", queue=name):
        operations.fail(scene, timer["operation"], late("tpu.queue-going"))


def nodes_of(scene: Scene, queue: Document) -> list[Document]:
    """Its nodes that are there; one that somebody made later under the name of one it lost is not its own."""
    found = (scene.world.get(transitions.KIND, name) for name in queue["nodes"])
    return [
        node for node in found if node is not None and node["shown"].get("queuedResource") == queue["shown"]["name"]
    ]


def drop_nodes(scene: Scene, queue: Document) -> None:
    """Its nodes are gone, machines and disks too."""
    for node in nodes_of(scene, queue):
        machines.remove(scene, node["machines"])
        transitions.forget(scene, node["shown"]["name"])
    queue["nodes"] = []


def accepted(scene: Scene, timer: Document) -> None:
    """Creation is admitted: the operation ends, the queueing begins."""
    queue = _in(scene, timer, "CREATING")
    if queue is not None:
        move(scene, queue, "ACCEPTED", "USER")
        scene.later(max(latency(scene, "accepted"), queue["after"] - scene.now), "queue.wait", queue=timer["queue"])
        operations.succeed(scene, timer["operation"], queue["shown"], "QueuedResource")


def waited(scene: Scene, timer: Document) -> None:
    """It waits for capacity, as long as a fault script says."""
    queue = _in(scene, timer, "ACCEPTED")
    if queue is not None:
        move(scene, queue, "WAITING_FOR_RESOURCES", "SERVICE")
        delay_s = max(latency(scene, "waiting"), float(queue["queue_s"]))
        scene.later(delay_s, "queue.provision", queue=timer["queue"])


def provisioned(scene: Scene, timer: Document) -> None:
    """There is capacity: the nodes are being created. Or the failure that a script holds ready has come."""
    queue = _in(scene, timer, "WAITING_FOR_RESOURCES")
    if queue is None:
        return
    failure = queue["failure"] or _taken(scene, queue)
    if failure:
        forget_plans(scene, timer["queue"])
        move(scene, queue, "FAILED", "SERVICE", failure)
        return
    for planned in queue["plan"]:
        shown = {**planned, "id": scene.draw.number(), "createTime": timestamp(scene.now), "state": "CREATING"}
        scene.world.put(transitions.KIND, shown["name"], {"shown": shown, "machines": [], "busy": ""})
    queue["nodes"] = [planned["name"] for planned in queue["plan"]]
    move(scene, queue, "PROVISIONING", "SERVICE")
    scene.cancel("queue.expire", queue=timer["queue"])
    scene.later(scene.profile.latency("tpu.nodes.create"), "queue.activate", queue=timer["queue"])


def _taken(scene: Scene, queue: Document) -> Document:
    """The failure of a request whose node's name was taken while it waited (what Google does is unverified)."""
    names = (planned["name"] for planned in queue["plan"])
    taken = next((name for name in names if scene.world.get(transitions.KIND, name) is not None), None)
    return late("tpu.name-taken", name=taken) if taken else {}


def activated(scene: Scene, timer: Document) -> None:
    """All nodes are ready."""
    queue = _in(scene, timer, "PROVISIONING")
    if queue is None:
        return
    for node in nodes_of(scene, queue):
        if node["shown"]["state"] == "CREATING":
            transitions.bring_up(scene, node)
    move(scene, queue, "ACTIVE", "SERVICE")
    if queue["run_s"]:
        left_s = queue["run_s"] if queue["ends"] is None else max(0.0, queue["ends"] - scene.now)
        scene.later(left_s, "queue.end", queue=timer["queue"])


def lost(scene: Scene, timer: Document) -> None:
    """One of its nodes was deleted or taken: it is being suspended."""
    queue = scene.world.get(KIND, timer["queue"])
    if queue is not None and timer["node"] in queue["nodes"]:
        _suspend(scene, queue, timer["by"])


def _suspend(scene: Scene, queue: Document, by: str) -> None:
    if queue["shown"]["state"]["state"] in {"PROVISIONING", "ACTIVE"}:
        name = queue["shown"]["name"]
        forget_plans(scene, name)
        move(scene, queue, "SUSPENDING", by)
        scene.later(latency(scene, "suspend"), "queue.suspended", queue=name, by=by)


def ended(scene: Scene, timer: Document) -> None:
    """The run duration of a flex-start request is over: its nodes are deleted by the service itself."""
    queue = _in(scene, timer, "ACTIVE")
    if queue is not None:
        drop_nodes(scene, queue)
        _suspend(scene, queue, "SERVICE")


def suspended(scene: Scene, timer: Document) -> None:
    """Suspended for good. Whether the nodes that are left go with it is unverified, hence an option of the profile."""
    queue = _in(scene, timer, "SUSPENDING")
    if queue is not None:
        if scene.profile.suspension_deletes_nodes:
            drop_nodes(scene, queue)
        move(scene, queue, "SUSPENDED", timer["by"])


def expired(scene: Scene, timer: Document) -> None:
    """Valid-until has passed unfilled: it fails, and stays in the queue until it is deleted."""
    queue = scene.world.get(KIND, timer["queue"])
    if queue is not None and queue["shown"]["state"]["state"] in {"CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES"}:
        forget_plans(scene, timer["queue"])
        move(scene, queue, "FAILED", "SERVICE", late("tpu.expired"))


def deleted(scene: Scene, timer: Document) -> None:
    """It is gone, with `force` its nodes too. Failed: it is as before, but plans for itself no more."""
    queue = _in(scene, timer, "DELETING")
    if queue is None:
        return
    if timer["failure"]:
        before = timer["before"] if timer["before"] in QUEUE_STEPS["DELETING"] else "SUSPENDED"
        move(scene, queue, before, "SERVICE", queue["failure"] or None)
        operations.fail(scene, timer["operation"], timer["failure"])
        return
    if timer["force"]:
        drop_nodes(scene, queue)
    scene.world.drop(KIND, timer["queue"])
    operations.succeed(scene, timer["operation"], None)


def reset(scene: Scene, timer: Document) -> None:
    """The reset was carried out at admission; only its operation ends."""
    queue = scene.world.get(KIND, timer["queue"])
    operations.succeed(scene, timer["operation"], queue["shown"] if queue else None, "QueuedResource")


def _in(scene: Scene, timer: Document, state: str) -> Document | None:
    queue = scene.world.get(KIND, timer["queue"])
    if queue is None or queue["shown"]["state"]["state"] != state:
        return None
    return queue


ACTIONS: Mapping[str, Action] = {
    "queue.accept": accepted,
    "queue.wait": waited,
    "queue.provision": provisioned,
    "queue.activate": activated,
    "queue.lost": lost,
    "queue.end": ended,
    "queue.suspended": suspended,
    "queue.expire": expired,
    "queue.delete": deleted,
    "queue.reset": reset,
}
