"""Long-running operations of the TPU service: admitted at once, finished or failed later.

`done` is absent while an operation runs, and a failure that a fault script or the cloud wants arrives late, in
`error` (facts: google-cloud.md 2.3). What finishing means for the node is said in nodes.py and transitions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call, Scene
from tpuops.localcloud.core.tpu.places import known_zone
from tpuops.localcloud.core.world import Document

KIND = "tpu.operation"
TYPES = "type.googleapis.com/google.cloud.tpu.v2."
EMPTY = "type.googleapis.com/google.protobuf.Empty"


def begin(call: Call, verb: str, target: str, action: str = "", after_s: float = 0.0, **facts: Any) -> Document:
    """Admit an operation on a node or queued resource; its action (`tpu.VERB`) is done after the method's latency."""
    operation = _new(call, verb, target)
    about = "queue" if "/queuedResources/" in target else "node"
    call.scene.later(
        call.latency + after_s,
        action or f"tpu.{verb}",
        operation=operation["name"],
        failure=dict(call.failure or {}),
        **{about: target, **facts},
    )
    return call.world.put(KIND, operation["name"], operation)


def finished(call: Call, verb: str, target: str, message: str, shown: Mapping[str, Any]) -> Document:
    """An operation that was done when it began, and that nobody can look up: a validation's answer."""
    return {**_new(call, verb, target), "done": True, "response": {"@type": TYPES + message, **shown}}


def _new(call: Call, verb: str, target: str) -> Document:
    parent = "/".join(target.split("/")[:4])
    name = f"{parent}/operations/{call.scene.draw.operation(call.now)}"
    metadata = {
        "@type": TYPES + "OperationMetadata",
        "createTime": timestamp(call.now),
        "target": target,
        "verb": verb,
        "apiVersion": "v2",
    }
    return {"name": name, "metadata": metadata}


def succeed(scene: Scene, name: str, shown: Mapping[str, Any] | None, message: str = "Node") -> None:
    """End it well: with the resource as it is now, or with an empty response."""
    response = {"@type": TYPES + message, **shown} if shown is not None else {"@type": EMPTY}
    _end(scene, name, {"response": response})


def fail(scene: Scene, name: str, error: Mapping[str, Any]) -> None:
    """End it with a google.rpc status: code, message and perhaps details."""
    _end(scene, name, {"error": {key: error[key] for key in ("code", "message", "details") if key in error}})


def _end(scene: Scene, name: str, result: Document) -> None:
    operation = scene.world.get(KIND, name)
    if operation is None or operation.get("done"):
        return
    metadata = {**operation["metadata"], "endTime": timestamp(scene.now)}
    scene.world.put(KIND, name, {**operation, "metadata": metadata, "done": True, **result})


def operations_get(call: Call) -> Answer:
    """GET .../operations/O."""
    return _existing(call)


def operations_list(call: Call) -> Answer:
    """GET .../operations."""
    prefix = f"projects/{call.params['project']}/locations/{known_zone(call)}/operations/"
    size = page_size(call.query.get("pageSize", ""), 500)
    chosen, token = page(call.world.items(KIND, prefix), size, call.query.get("pageToken", ""))
    reply: Document = {"operations": [operation for _, operation in chosen]} if chosen else {}
    return {**reply, "nextPageToken": token} if token else reply


def operations_delete(call: Call) -> Answer:
    """DELETE .../operations/O: the record goes, the change goes on."""
    call.world.drop(KIND, _existing(call)["name"])
    return {}


def operations_cancel(call: Call) -> Answer:
    """POST .../operations/O:cancel: best effort by its contract; here nothing is ever cut short."""
    _existing(call)
    return {}


def _existing(call: Call) -> Document:
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/operations/{call.params['operation']}"
    operation = call.world.get(KIND, name)
    if operation is None:
        raise refuse("tpu.absent", name=name)
    return operation
