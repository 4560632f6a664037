"""A project's own metadata, which every machine of the project sees beside its own; its keys open them all.

A machine that sets `block-project-ssh-keys` keeps the project's keys out (google-cloud.md 3.4.2).
"""

from __future__ import annotations

from tpuops.localcloud.core import machines
from tpuops.localcloud.core.compute import operations, shape
from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call

KIND = "compute.project"


def set_common_metadata(call: Call) -> Answer:
    """POST projects/P/setCommonInstanceMetadata with the current fingerprint."""
    project, body = call.params["project"], call.body()
    stored = call.world.get(KIND, project) or {"items": []}
    if body.get("fingerprint") != shape.metadata(list(stored["items"]))["fingerprint"]:
        raise refuse("compute.stale", what="Supplied")
    items = [{"key": item["key"], "value": item.get("value", "")} for item in body.get("items") or []]
    call.world.put(KIND, project, {"items": items})
    machines.change_project(call.scene, project, {item["key"]: item["value"] for item in items})
    return operations.admit(call, "setMetadata", f"projects/{project}", project_number(project))
