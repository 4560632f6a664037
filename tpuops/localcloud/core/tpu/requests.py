"""Request ids: a call sent twice starts one operation (google-cloud.md 2.1; nodes have them in v2alpha1 only)."""

from __future__ import annotations

from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.tpu import operations, shape
from tpuops.localcloud.core.world import Document

KIND = "tpu.request"


def repeated(call: Call) -> Document | None:
    """The operation that an earlier call with this request id started."""
    noted = call.world.get(KIND, _key(call)) if _counts(call) else None
    return call.world.get(operations.KIND, noted["operation"]) if noted else None


def noted(call: Call, operation: Document) -> Document:
    """The operation, remembered for the call's request id where it has one."""
    if _counts(call):
        call.world.put(KIND, _key(call), {"operation": operation["name"]})
    return operation


def _counts(call: Call) -> bool:
    """Whether the call has a request id, and its method knows them: nodes have none in v2."""
    return bool(call.query.get("requestId")) and (shape.is_alpha(call) or not call.method.startswith("tpu.nodes."))


def _key(call: Call) -> str:
    return f"{call.params['project']}/{call.params['zone']}/{call.method}/{call.query['requestId']}"
