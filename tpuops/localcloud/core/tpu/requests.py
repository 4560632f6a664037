"""Request ids: a call sent twice starts one operation (google-cloud.md 2.1; nodes have them in v2alpha1 only)."""

from __future__ import annotations

from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.tpu import operations
from tpuops.localcloud.core.world import Document

KIND = "tpu.request"


def repeated(call: Call) -> Document | None:
    """The operation that an earlier call with this request id started."""
    noted = call.world.get(KIND, _key(call)) if call.query.get("requestId") else None
    return call.world.get(operations.KIND, noted["operation"]) if noted else None


def noted(call: Call, operation: Document) -> Document:
    """The operation, remembered for the call's request id where it has one."""
    if call.query.get("requestId"):
        call.world.put(KIND, _key(call), {"operation": operation["name"]})
    return operation


def _key(call: Call) -> str:
    return f"{call.params['project']}/{call.params['zone']}/{call.method}/{call.query['requestId']}"
