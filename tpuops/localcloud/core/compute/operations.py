"""Compute's zone operations: HTTP 200 also when they failed, then with `error.errors` (google-cloud.md 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tpuops.localcloud.core.compute.filters import keep
from tpuops.localcloud.core.compute.links import link, zone_link
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call, Scene
from tpuops.localcloud.core.wire import json_reply
from tpuops.localcloud.core.world import Document

KIND = "compute.operation"
WAIT_S = 120.0
"""`wait` returns after at most two minutes, done or not (google-cloud.md 3.3.1)."""


def begin(call: Call, operation_type: str, key: str, target_id: str, **facts: Any) -> Document:
    """Admit an operation on the instance `key` (project/zone/name); action `compute.TYPE` follows after the latency."""
    project, zone, instance = key.split("/")
    name = call.scene.draw.operation(call.now)
    at = timestamp(call.now)
    operation: Document = {
        "kind": "compute#operation",
        "id": call.scene.draw.number(),
        "name": name,
        "zone": zone_link(project, zone),
        "operationType": operation_type,
        "targetLink": link(f"projects/{project}/zones/{zone}/instances/{instance}"),
        "targetId": target_id,
        "status": "RUNNING",
        "user": "local@tpuops.invalid",
        "progress": 0,
        "insertTime": at,
        "startTime": at,
        "selfLink": link(f"projects/{project}/zones/{zone}/operations/{name}"),
    }
    request_id = call.query.get("requestId")
    if request_id:
        operation["clientOperationId"] = request_id
    failure = _failure(call.failure)
    call.scene.later(
        call.latency,
        f"compute.{operation_type}",
        operation=f"{project}/{zone}/{name}",
        key=key,
        failure=failure,
        **facts,
    )
    return call.world.put(KIND, f"{project}/{zone}/{name}", operation)


def repeated(call: Call) -> Document | None:
    """The operation that an earlier call with the same request id started (google-cloud.md 3.3.5)."""
    request_id = call.query.get("requestId")
    if not request_id:
        return None
    prefix = f"{call.params['project']}/{call.params['zone']}/"
    for _, operation in call.world.items(KIND, prefix):
        if operation.get("clientOperationId") == request_id:
            return operation
    return None


def end(scene: Scene, timer: Document) -> None:
    """The operation is done, well or with the failure its timer carries."""
    operation = scene.world.get(KIND, timer["operation"])
    if operation is None:
        return
    done: Document = {**operation, "status": "DONE", "progress": 100, "endTime": timestamp(scene.now)}
    if timer.get("failure"):
        failure = timer["failure"]
        done["error"] = {"errors": [{key: failure[key] for key in failure if not key.startswith("http")}]}
        done["httpErrorStatusCode"] = failure["httpErrorStatusCode"]
        done["httpErrorMessage"] = failure["httpErrorMessage"]
    scene.world.put(KIND, timer["operation"], done)


def get(call: Call) -> Answer:
    """GET .../operations/O."""
    return _existing(call)


def wait(call: Call) -> Answer:
    """POST .../operations/O/wait: answers when it is done, or after two minutes."""
    operation = _existing(call)
    asked = call.now if call.request.asked_at is None else call.request.asked_at
    if operation["status"] == "DONE" or call.now >= asked + WAIT_S:
        return operation
    key = f"{call.params['project']}/{call.params['zone']}/{operation['name']}"
    ends = [timer["at"] for _, timer in call.world.items("timer") if timer.get("operation") == key]
    return replace(json_reply(operation), hold_until=min([asked + WAIT_S, *ends]))


def listing(call: Call) -> Answer:
    """GET .../operations."""
    prefix = f"{call.params['project']}/{call.params['zone']}/"
    found = keep(call.world.items(KIND, prefix), call.query.get("filter", ""))
    size = page_size(call.query.get("maxResults", ""), 500)
    chosen, token = page(found, size, call.query.get("pageToken", ""))
    reply: Document = {"kind": "compute#operationList"}
    if chosen:
        reply["items"] = [operation for _, operation in chosen]
    return {**reply, "nextPageToken": token} if token else reply


def _existing(call: Call) -> Document:
    project, zone, name = call.params["project"], call.params["zone"], call.params["operation"]
    operation = call.world.get(KIND, f"{project}/{zone}/{name}")
    if operation is None:
        raise refuse("compute.absent", name=f"projects/{project}/zones/{zone}/operations/{name}")
    return operation


def _failure(asked: Mapping[str, Any] | None) -> Document:
    """A script's late failure in Compute's words: `code` is a name such as ZONE_RESOURCE_POOL_EXHAUSTED."""
    if not asked:
        return {}
    failure = {key: asked[key] for key in ("message", "location", "errorDetails") if key in asked}
    code = asked.get("code", "INTERNAL_ERROR")
    failure["code"] = "ZONE_RESOURCE_POOL_EXHAUSTED" if code == 8 else str(code)
    failure["httpErrorStatusCode"] = int(asked.get("http", 503))
    failure["httpErrorMessage"] = str(asked.get("http_message", "SERVICE UNAVAILABLE"))
    return failure
