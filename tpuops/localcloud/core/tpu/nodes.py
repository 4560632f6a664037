"""Nodes: the methods that clients call. Each one checks, changes the node's state and admits an operation.

Which verb is allowed in which state is data (states.py); what an operation does when it ends is in transitions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.facts import catalogue
from tpuops.localcloud.core import machines
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.steps import step
from tpuops.localcloud.core.tpu import operations, quota, requests, shape
from tpuops.localcloud.core.tpu.places import known_zone, shown_page
from tpuops.localcloud.core.tpu.states import NODE_STEPS, NODE_VERBS
from tpuops.localcloud.core.tpu.transitions import abandon
from tpuops.localcloud.core.world import Document

KIND = "tpu.node"

PATCHABLE = {
    "description": "description",
    "labels": "labels",
    "metadata": "metadata",
    "tags": "tags",
    "data_disks": "dataDisks",
    "dataDisks": "dataDisks",
    "network_config.enable_external_ips": "networkConfig",
    "networkConfig.enableExternalIps": "networkConfig",
}


def create(call: Call) -> Answer:
    """POST .../nodes?nodeId=N; `requestId` counts in v2alpha1."""
    again = requests.repeated(call)
    if again is not None:
        return again
    body = call.body()
    node_id = call.query.get("nodeId") or call.query.get("node_id") or ""
    labels = body.get("labels") or {}
    shape.check_names(call, node_id, labels)
    accelerator = shape.accelerator_of(call, call.params["zone"], body)
    if not body.get("runtimeVersion"):
        raise shape.bad(call, "runtime_version must be specified.")
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/nodes/{node_id}"
    if call.world.get(KIND, name) is not None:
        raise refuse("tpu.exists", name=name)
    quota.check(call, accelerator, shape.is_spot(body))
    shown = shape.document(call, name, accelerator, body)
    call.world.put(KIND, name, {"shown": shown, "machines": [], "busy": ""})
    return requests.noted(call, _admit(call, "create", name))


def get(call: Call) -> Answer:
    """GET .../nodes/N."""
    known_zone(call)
    shown: Document = _existing(call)["shown"]
    return shown


def listing(call: Call) -> Answer:
    """GET .../nodes; the zone `-` means all zones."""
    project, zone = call.params["project"], call.params["zone"]
    prefix = f"projects/{project}/locations/"
    if zone != "-":
        prefix += f"{known_zone(call)}/nodes/"
    return shown_page(call, "nodes", call.world.items(KIND, prefix))


def delete(call: Call) -> Answer:
    """DELETE .../nodes/N: allowed in every state; machines die at once, the name stays taken until it is done."""
    node = _existing(call)
    name = node["shown"]["name"]
    if node["shown"]["state"] == "DELETING":
        return call.world.get(operations.KIND, node["busy"]) or {"name": node["busy"]}
    abandon(call.scene, name)
    before = node["shown"]["state"]
    if not call.failure:
        machines.halt(call.scene, node["machines"])
    return _admit(call, "delete", name, state="DELETING", before=before)


def stop(call: Call) -> Answer:
    """POST .../nodes/N:stop: single on-demand nodes only (google-cloud.md 1.4)."""
    node = _existing(call)
    _check_state(call, node, "stop")
    why = _unstoppable(node["shown"])
    if why:
        raise refuse("tpu.stop-shape", why=why, eid=call.scene.draw.eid())
    if not call.failure:
        machines.halt(call.scene, node["machines"])
    return _admit(call, "stop", node["shown"]["name"], state="STOPPING")


def start(call: Call) -> Answer:
    """POST .../nodes/N:start: a stopped node's capacity may be gone, which shows late."""
    node = _existing(call)
    _check_state(call, node, "start")
    return _admit(call, "start", node["shown"]["name"], state="STARTING")


def patch(call: Call) -> Answer:
    """PATCH .../nodes/N?updateMask=...: whole maps are replaced; output-only fields in the body are ignored."""
    node = _existing(call)
    _check_state(call, node, "update")
    body = call.body()
    mask = [field.strip() for field in call.query.get("updateMask", "").split(",") if field.strip()]
    unknown = [field for field in mask if field not in PATCHABLE]
    if unknown or not mask:
        raise shape.bad(call, f"update_mask {','.join(unknown) or '(empty)'} is not supported.")
    shape.check_names(call, call.params["node"], body.get("labels", {}) if "labels" in mask else {})
    changes = {PATCHABLE[field]: body.get(PATCHABLE[field]) for field in mask}
    if "networkConfig" in changes:
        changes["networkConfig"] = _opened(call, node["shown"], changes["networkConfig"] or {})
    return _admit(call, "update", node["shown"]["name"], changes=changes)


def get_guest_attributes(call: Call) -> Answer:
    """POST .../nodes/N:getGuestAttributes: one entry a worker; `workerIds: [""]` means all (google-cloud.md 2.8)."""
    node = _existing(call)
    body = call.body()
    query_path = str(body.get("queryPath") or "")
    wanted = {str(worker) for worker in body.get("workerIds") or []} - {""}
    entries = []
    for index, machine_id in enumerate(node["machines"]):
        machine = call.world.get("machine", machine_id)
        if machine is None or (wanted and str(index) not in wanted):
            continue
        items = machines.guest_items(machine, query_path)
        entries.append({"queryPath": query_path, "queryValue": {"items": items} if items else {}})
    return {"guestAttributes": entries} if entries else {}


def _opened(call: Call, shown: Document, asked: Mapping[str, Any]) -> Document:
    """The node's network with external addresses, or without; nothing else of it can be changed."""
    if "networkConfig" not in shown:
        raise shape.bad(call, "network_config is not set on this node.")
    kept = {field: value for field, value in shown["networkConfig"].items() if field != "enableExternalIps"}
    return {**kept, "enableExternalIps": True} if asked.get("enableExternalIps") else kept


def _existing(call: Call) -> Document:
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/nodes/{call.params['node']}"
    node = call.world.get(KIND, name)
    if node is None:
        raise refuse("tpu.absent", name=name)
    return node


def _check_state(call: Call, node: Mapping[str, Any], verb: str) -> None:
    """Raise where the verb is not allowed in the node's state, or another operation is under way on it."""
    state = node["shown"]["state"]
    if state not in NODE_VERBS[verb]:
        raise refuse("tpu.state", verb=verb, state=state, eid=call.scene.draw.eid())
    if node["busy"]:
        raise refuse("tpu.busy", name=node["shown"]["name"], operation=node["busy"])


def _unstoppable(shown: Mapping[str, Any]) -> str:
    known = catalogue.accelerator(shown["acceleratorType"])
    if shape.is_spot(shown):
        return "the node is spot or preemptible."
    if shown.get("queuedResource"):
        return "the node belongs to a queued resource."
    return "" if known is None or known.stop_start else f"the node has {known.workers} workers."


def _admit(call: Call, verb: str, name: str, state: str = "", **facts: Any) -> Document:
    operation = operations.begin(call, verb, name, **facts)
    node = call.world.get(KIND, name)
    assert node is not None
    if state:
        node["shown"]["state"] = step(NODE_STEPS, node["shown"]["state"], state)
        node["shown"].pop("health", None)
    node["busy"] = operation["name"]
    call.world.put(KIND, name, node)
    return operation
