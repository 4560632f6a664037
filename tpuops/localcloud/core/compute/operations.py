"""Compute's zone operations: HTTP 200 also when they failed, then with `error.errors` (google-cloud.md 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.localcloud.core.compute import catalogue
from tpuops.localcloud.core.compute.links import link, zone_link
from tpuops.localcloud.core.compute.pages import by_scope, shown_page
from tpuops.localcloud.core.draw import timestamp
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
    path = f"projects/{project}/zones/{zone}/instances/{instance}"
    return _begin(call, operation_type, path, target_id, {"action": f"compute.{operation_type}", "key": key, **facts})


def admit(call: Call, operation_type: str, path: str, target_id: str) -> Document:
    """Admit an operation on anything else, whose change was made at admission: only the operation ends later."""
    return _begin(call, operation_type, path, target_id, {"action": "compute.end"})


def _begin(call: Call, operation_type: str, path: str, target_id: str, facts: Mapping[str, Any]) -> Document:
    project, zone = call.params["project"], _scope(call)
    name = call.scene.draw.operation(call.now)
    at = timestamp(call.now)
    operation: Document = {
        "kind": "compute#operation",
        "id": call.scene.draw.number(),
        "name": name,
        "operationType": operation_type,
        "targetLink": link(path),
        "targetId": target_id,
        "status": "RUNNING",
        "user": "local@tpuops.invalid",
        "progress": 0,
        "insertTime": at,
        "startTime": at,
        "selfLink": link(f"projects/{project}/{_within(call)}/operations/{name}"),
    }
    if "zone" in call.params:
        operation["zone"] = zone_link(project, zone)
    elif "region" in call.params:
        operation["region"] = link(f"projects/{project}/regions/{zone}")
    request_id = call.query.get("requestId")
    if request_id:
        operation["clientOperationId"] = request_id
    given = dict(facts)
    call.scene.later(
        call.latency,
        given.pop("action"),
        operation=f"{project}/{zone}/{name}",
        failure=_failure(call.failure),
        **given,
    )
    return call.world.put(KIND, f"{project}/{zone}/{name}", operation)


def _scope(call: Call) -> str:
    return call.params.get("zone") or call.params.get("region") or "global"


def _within(call: Call) -> str:
    scope = _scope(call)
    return f"zones/{scope}" if "zone" in call.params else f"regions/{scope}" if "region" in call.params else scope


def repeated(call: Call) -> Document | None:
    """The operation that an earlier call with the same request id started (google-cloud.md 3.3.5)."""
    request_id = call.query.get("requestId")
    if not request_id:
        return None
    prefix = f"{call.params['project']}/{_scope(call)}/"
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
    key = f"{call.params['project']}/{_scope(call)}/{operation['name']}"
    ends = [timer["at"] for _, timer in call.world.items("timer") if timer.get("operation") == key]
    return json_reply(operation)._replace(hold_until=min([asked + WAIT_S, *ends]))


def listing(call: Call) -> Answer:
    """GET .../operations."""
    prefix = f"{call.params['project']}/{_scope(call)}/"
    return shown_page(call, "compute#operationList", call.world.items(KIND, prefix))


def aggregated_list(call: Call) -> Answer:
    """GET projects/P/aggregated/operations."""
    project = call.params["project"]
    scopes = {f"zones/{zone}": call.world.items(KIND, f"{project}/{zone}/") for zone in catalogue.zones()}
    everywhere = {"global": call.world.items(KIND, f"{project}/global/"), **scopes}
    return by_scope(call, "compute#operationAggregatedList", "operations", everywhere)


def _existing(call: Call) -> Document:
    project, zone, name = call.params["project"], _scope(call), call.params["operation"]
    operation = call.world.get(KIND, f"{project}/{zone}/{name}")
    if operation is None:
        raise refuse("compute.absent", name=f"projects/{project}/{_within(call)}/operations/{name}")
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
