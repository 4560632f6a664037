"""Service Usage: which APIs a project has switched on. Enabling ends at once and takes effect late, as Google's does.

Imitated: what is on or off holds for all projects alike.
"""

from __future__ import annotations

from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.identity import access
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

FURTHER = ("iam.googleapis.com", "logging.googleapis.com", "monitoring.googleapis.com")
"""APIs that exist and are always on, without being served."""


def get(call: Call) -> Answer:
    """GET v1/projects/P/services/S."""
    return _service(call, call.params["api"])


def listing(call: Call) -> Answer:
    """GET v1/projects/P/services[?filter=state:ENABLED]."""
    shown = [_service(call, name) for name in _known()]
    wanted = call.query.get("filter", "").removeprefix("state:")
    kept = [service for service in shown if not wanted or service["state"] == wanted]
    return {"services": kept} if kept else {}


def enable(call: Call) -> Answer:
    """POST v1/projects/P/services/S:enable."""
    return _enable(call, [call.params["api"]])


def batch_enable(call: Call) -> Answer:
    """POST v1/projects/P/services:batchEnable."""
    return _enable(call, [str(name) for name in call.body().get("serviceIds", [])])


def disable(call: Call) -> Answer:
    """POST v1/projects/P/services/S:disable."""
    shown = _service(call, call.params["api"])
    rules = access.rules(call.world)
    changed = {**rules.get("disabled", {}), call.params["api"]: None}
    call.world.put("cloud", "access", {**rules, "disabled": changed})
    return _done(call, {"service": {**shown, "state": "DISABLED"}})


def operation(call: Call) -> Answer:
    """GET v1/operations/O: all are done when they begin."""
    return {"name": f"operations/{call.params['operation']}", "done": True, "response": {}}


def _enable(call: Call, names: list[str]) -> Answer:
    shown = [_service(call, name) for name in names]
    rules = access.rules(call.world)
    disabled = dict(rules.get("disabled", {}))
    for name in names:
        if name in disabled and disabled[name] is None:
            disabled[name] = call.now + float(rules.get("enable_delay_s", 0.0))
    if rules:
        call.world.put("cloud", "access", {**rules, "disabled": disabled})
    return _done(call, {"service": {**shown[0], "state": "ENABLED"}} if shown else {})


def _done(call: Call, response: Document) -> Document:
    return {"name": f"operations/acat.{call.scene.draw.hex(20)}", "done": True, "response": response}


def _known() -> list[str]:
    return sorted({*(name for name, _ in access.APIS.values()), *FURTHER})


def _service(call: Call, name: str) -> Document:
    number = project_number(call.params["project"])
    if name not in _known():
        raise refuse("access.no-service", service=name)
    disabled = access.rules(call.world).get("disabled", {})
    state = "DISABLED" if name in disabled and disabled[name] is None else "ENABLED"
    parent = f"projects/{number}"
    return {"name": f"{parent}/services/{name}", "parent": parent, "config": {"name": name}, "state": state}
