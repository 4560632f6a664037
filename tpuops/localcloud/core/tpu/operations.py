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


def begin(call: Call, verb: str, target: str, **facts: Any) -> Document:
    """Admit an operation on the node named `target`; its action `tpu.VERB` is done after the method's latency."""
    parent = target.rsplit("/nodes/", 1)[0]
    name = f"{parent}/operations/{call.scene.draw.operation(call.now)}"
    metadata = {
        "@type": TYPES + "OperationMetadata",
        "createTime": timestamp(call.now),
        "target": target,
        "verb": verb,
        "apiVersion": "v2",
    }
    call.scene.later(
        call.latency, f"tpu.{verb}", operation=name, node=target, failure=dict(call.failure or {}), **facts
    )
    return call.world.put(KIND, name, {"name": name, "metadata": metadata})


def succeed(scene: Scene, name: str, shown: Mapping[str, Any] | None) -> None:
    """End it well: with the node as it is now, or with an empty response."""
    response = {"@type": TYPES + "Node", **shown} if shown is not None else {"@type": EMPTY}
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
