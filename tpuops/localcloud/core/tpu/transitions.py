"""What becomes of a node when an operation ends, or when Google takes the node away.

Called by the timer and by fault scripts; each function leaves the node, its machines and its operation in agreement.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.facts import catalogue
from tpuops.localcloud.core import machines
from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.refusals import late
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.steps import step
from tpuops.localcloud.core.tpu import operations, shape
from tpuops.localcloud.core.tpu.states import NODE_STEPS
from tpuops.localcloud.core.world import Document

KIND = "tpu.node"
LEGACY_PORT = 8470
CHANGES = ("tpu.create", "tpu.start", "tpu.stop", "tpu.update", "tpu.maintain")
"""Actions that a deletion or a preemption overtakes."""
TAKEN = frozenset({"DELETING", "PREEMPTED", "TERMINATED"})


def created(scene: Scene, timer: Document) -> None:
    """The slice is there: endpoints appear and the workers boot. Failed: the node is gone again."""
    node = scene.world.get(KIND, timer["node"])
    if node is None:
        return
    if timer["failure"]:
        scene.world.drop(KIND, timer["node"])
        operations.fail(scene, timer["operation"], timer["failure"])
        return
    bring_up(scene, node)
    operations.succeed(scene, timer["operation"], node["shown"])


def bring_up(scene: Scene, node: Document) -> None:
    """A new node is ready: its workers have addresses, and boot."""
    _place_workers(scene, node)
    _settle(scene, node, "READY")
    machines.boot(scene, node["machines"])


def abandon(scene: Scene, name: str) -> None:
    """Whatever was still to be done with the node comes to nothing, since it is being deleted."""
    for action in CHANGES:
        for timer in scene.cancel(action, node=name):
            operations.fail(scene, timer["operation"], late("tpu.node-going"))


def doom(scene: Scene, node: Document, operation: str) -> None:
    """The node begins to go with the queued resource that is being deleted by `operation`."""
    if node["shown"]["state"] != "DELETING":
        abandon(scene, node["shown"]["name"])
        machines.halt(scene, node["machines"])
        _settle(scene, node, "DELETING")
        scene.world.put(KIND, node["shown"]["name"], {**node, "busy": operation})


def forget(scene: Scene, name: str) -> None:
    """The node is gone."""
    abandon(scene, name)
    for timer in scene.cancel("tpu.delete", node=name):
        operations.succeed(scene, timer["operation"], None)
    scene.world.drop(KIND, name)


def started(scene: Scene, timer: Document) -> None:
    """The node runs again, on the same disk. Failed: it stays stopped (its capacity was given away)."""
    node = scene.world.get(KIND, timer["node"])
    if node is None:
        return
    if timer["failure"]:
        _settle(scene, node, "STOPPED")
        operations.fail(scene, timer["operation"], timer["failure"])
        return
    _settle(scene, node, "READY")
    machines.boot(scene, node["machines"])
    operations.succeed(scene, timer["operation"], node["shown"])


def stopped(scene: Scene, timer: Document) -> None:
    """The node is stopped, its disk waits. Failed: it went on running."""
    node = scene.world.get(KIND, timer["node"])
    if node is None:
        return
    _settle(scene, node, "READY" if timer["failure"] else "STOPPED")
    _end(scene, timer, node["shown"])


def updated(scene: Scene, timer: Document) -> None:
    """The new labels or metadata hold; machines learn of new attributes."""
    node = scene.world.get(KIND, timer["node"])
    if node is None:
        return
    if not timer["failure"]:
        for field, value in timer["changes"].items():
            node["shown"].pop(field, None)
            if value:
                node["shown"][field] = value
        if "networkConfig" in timer["changes"]:
            _show_endpoints(scene, node)
        if "metadata" in timer["changes"]:
            machines.change_metadata(scene, node["machines"], node["shown"].get("metadata", {}))
    _settle(scene, node, node["shown"]["state"])
    _end(scene, timer, node["shown"])


def deleted(scene: Scene, timer: Document) -> None:
    """Node and disks are gone and the name is free. Failed: everything is as before."""
    node = scene.world.get(KIND, timer["node"])
    if node is None:
        return
    if timer["failure"]:
        _settle(scene, node, timer["before"])
    else:
        machines.remove(scene, node["machines"])
        scene.world.drop(KIND, timer["node"])
        _tell_queue(scene, node, "USER")
    _end(scene, timer, None)


def preempt(scene: Scene, name: str, *, gone: bool = False) -> bool:
    """Google takes the node: machines die, running operations fail, and only deletion is left to do.

    `gone` leaves not even that: the node is not there any more, as was seen too (google-cloud.md 2.2). False where
    there was nothing to take.
    """
    node = scene.world.get(KIND, name)
    if node is None or node["shown"]["state"] in TAKEN:
        return False
    for action in CHANGES:
        for timer in scene.cancel(action, node=name):
            operations.fail(scene, timer["operation"], late("tpu.taken", eid=scene.draw.eid()))
    lose(scene, node, "PREEMPTED")
    if gone:
        machines.remove(scene, node["machines"])
        scene.world.drop(KIND, name)
    return True


def lose(scene: Scene, node: Document, state: str) -> None:
    """The node has come to its end, in `state`; the queued resource behind it learns of that."""
    machines.halt(scene, node["machines"])
    node["shown"].pop("upcomingMaintenance", None)
    _settle(scene, node, state)
    _tell_queue(scene, node, "SERVICE")


def leave(scene: Scene, node: Document, state: str) -> None:
    """The node is away for a while (`states.PASSING`): its machines are down until it is ready again."""
    machines.halt(scene, node["machines"])
    _settle(scene, node, state)


def come_back(scene: Scene, node: Document) -> None:
    """The node that was away is ready, on the same disks."""
    _settle(scene, node, "READY")
    machines.boot(scene, node["machines"])


def _tell_queue(scene: Scene, node: Document, by: str) -> None:
    """The queued resource that stands behind the node learns that it lost it."""
    queue = node["shown"].get("queuedResource")
    if queue:
        scene.later(0.0, "queue.lost", queue=queue, node=node["shown"]["name"], by=by)


def _place_workers(scene: Scene, node: Document) -> None:
    shown = node["shown"]
    known = catalogue.accelerator(shown["acceleratorType"])
    assert known is not None
    _, project, _, zone, _, name = shown["name"].split("/")
    account = {"email": shown["serviceAccount"]["email"], "scopes": shown["serviceAccount"]["scope"]}
    for worker in range(known.workers):
        identity = machines.Identity(
            id=f"{shown['id']}-{worker}",
            name=name,
            kind="tpu",
            project=project,
            zone=zone,
            hostname=f"t1v-n-{shown['id'][:8]}-w-{worker}",
            accelerator=known.type,
            worker=worker,
            devices=known.devices // known.workers,
        )
        machines.define(scene, identity, account, shown.get("metadata", {}))
        node["machines"].append(identity.id)
    _show_endpoints(scene, node)
    _tell_neighbours(scene, node)


def _tell_neighbours(scene: Scene, node: Document) -> None:
    """Each worker can read who the others are (attributes `worker-network-endpoints`, google-cloud.md 2.2, 9.4)."""
    found = [scene.world.get("machine", machine_id) for machine_id in node["machines"]]
    workers = [machine for machine in found if machine is not None]
    listed = ",".join(f"{machine['hostname']}:{machine['id']}:{machine['address']}" for machine in workers)
    for machine in workers:
        machine["provided"] = {
            "accelerator-type": machine["accelerator"],
            "agent-worker-number": str(machine["worker"]),
            "worker-network-endpoints": listed,
            "instance-id": machine["name"],
            "tpu-env": _tpu_env(machine, node["shown"]),
        }
        scene.world.put("machine", machine["id"], machine)


def _tpu_env(machine: Document, shown: Mapping[str, str]) -> str:
    lines = {
        "ACCELERATOR_TYPE": machine["accelerator"],
        "NODE_ID": machine["name"],
        "WORKER_ID": machine["worker"],
        "ZONE": machine["zone"],
        "CONSUMER_PROJECT_ID": machine["project"],
        "CONSUMER_PROJECT_NUMBER": project_number(machine["project"]),
        "RUNTIME_VERSION": shown["runtimeVersion"],
    }
    return "".join(f"{key}: '{value}'\n" for key, value in lines.items())


def _show_endpoints(scene: Scene, node: Document) -> None:
    """The workers' endpoints, in order; with several networks each worker has one in each."""
    found = (scene.world.get("machine", machine_id) for machine_id in node["machines"])
    addresses = [machine["address"] for machine in found if machine is not None]
    networks = shape.networks_of(node["shown"])
    node["shown"]["networkEndpoints"] = [_endpoint(address, network) for address in addresses for network in networks]


def _endpoint(address: str, network: Mapping[str, object]) -> Document:
    """A worker's endpoint. Imitated: internal and external address are the same loopback address."""
    endpoint: Document = {"ipAddress": address, "port": LEGACY_PORT}
    return {**endpoint, "accessConfig": {"externalIp": address}} if network.get("enableExternalIps") else endpoint


def _settle(scene: Scene, node: Document, state: str) -> None:
    before = node["shown"]["state"]
    node["shown"]["state"] = step(NODE_STEPS, before, state)
    if before == state and node["shown"].get("upcomingMaintenance"):
        node["busy"] = ""
        scene.world.put(KIND, node["shown"]["name"], node)
        return
    node["shown"].pop("health", None)
    if state == "READY":
        node["shown"]["health"] = "HEALTHY"
    node["busy"] = ""
    scene.world.put(KIND, node["shown"]["name"], node)


def _end(scene: Scene, timer: Document, shown: Document | None) -> None:
    if timer["failure"]:
        operations.fail(scene, timer["operation"], timer["failure"])
    else:
        operations.succeed(scene, timer["operation"], shown)


ACTIONS: Mapping[str, Action] = {
    "tpu.create": created,
    "tpu.start": started,
    "tpu.stop": stopped,
    "tpu.update": updated,
    "tpu.delete": deleted,
}
