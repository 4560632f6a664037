"""The metadata server of one machine: what a program on it learns about itself, and the guest attributes it writes.

Values are plain text, folders list their names, `recursive=true` gives JSON, `wait_for_change=true` holds the answer.
Every request needs the header `Metadata-Flavor: Google`, every answer carries it.
"""

from __future__ import annotations

import json
from typing import Any

from tpuops.localcloud.core.draw import fingerprint, project_number
from tpuops.localcloud.core.identity import tokens
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.wire import Reply
from tpuops.localcloud.core.world import Document

HEADERS = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
LOOK_AGAIN_S = 0.25
"""How often a held `wait_for_change` is asked again."""
GUEST = "instance/guest-attributes"
NO_MAINTENANCE = '{ "error": "no notifications have been received yet, try again later" }'  # google-cloud.md 2.8


def ping(call: Call) -> Answer:
    """GET /m/M: how a client library finds out that it runs on a machine."""
    return _text("computeMetadata/\n") if _machine(call) else _missing()


def get(call: Call) -> Answer:
    """GET /m/M/computeMetadata/v1/PATH."""
    machine = _machine(call)
    if machine is None:
        return _missing()
    if call.request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in call.request.headers:
        return _text("Missing Metadata-Flavor:Google header.", 403)
    found = _walk(call, machine, call.params.get("path", "").strip("/"))
    if found is None:
        return _missing()
    etag = fingerprint(found).rstrip("=").replace("/", "-").replace("+", "_")
    if call.flag("wait_for_change") and etag == (call.query.get("last_etag") or call.request.held_etag or etag):
        asked = call.now if call.request.asked_at is None else call.request.asked_at
        limit = asked + float(call.query.get("timeout_sec") or 3600)
        if call.now < limit:
            return Reply(200, {"ETag": etag}, hold_until=min(limit, call.now + LOOK_AGAIN_S))
    return _shown(call, found, etag)


def put_guest(call: Call) -> Answer:
    """PUT /m/M/computeMetadata/v1/instance/guest-attributes/NAMESPACE/KEY."""
    machine = _machine(call)
    if machine is None or call.request.headers.get("metadata-flavor") != "Google":
        return _missing()
    guest = {**machine["guest"], call.params["path"]: call.request.body.decode("utf-8", "replace")}
    call.world.put("machine", machine["id"], {**machine, "guest": guest})
    return _text("")


def _machine(call: Call) -> Document | None:
    machine = call.world.get("machine", call.params["machine"])
    return machine if machine and machine["running"] else None


def _walk(call: Call, machine: Document, path: str) -> Any:
    if path.startswith("instance/service-accounts/") and path.endswith("/token"):
        return _token(call, machine)
    if path.startswith(GUEST):
        wanted = path[len(GUEST) :].strip("/")
        return machine["guest"].get(wanted)
    value: Any = _tree(machine)
    for part in path.split("/") if path else []:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _token(call: Call, machine: Document) -> Document | None:
    """The machine's own token, the same one until it is about to expire, as the real server caches it."""
    if not machine["account"]:
        return None
    kept = call.world.get("metadata.token", machine["id"]) or {"token": ""}
    issued = call.world.get(tokens.KIND, kept["token"])
    if issued is None or issued["expires"] - call.now < 300:
        issued = tokens.issue(call.scene, machine["account"], machine["scopes"])
        call.world.put("metadata.token", machine["id"], {"token": issued["token"]})
    left = int(issued["expires"] - call.now)
    return {"access_token": issued["token"], "expires_in": left, "token_type": "Bearer"}


def _tree(machine: Document) -> Document:
    number = project_number(machine["project"])
    notice, attributes = machine.get("notice", {}), machine.get("project_attributes", {})
    account = {"aliases": ["default"], "email": machine["account"], "scopes": machine["scopes"]}
    accounts = {"default": account, machine["account"]: account} if machine["account"] else {}
    interface = {"ip": machine["address"], "access-configs": {"0": {"external-ip": machine["address"]}}}
    instance = {
        "attributes": {**machine["metadata"], **machine.get("provided", {})},
        "hostname": machine["hostname"],
        "id": int(machine["id"].partition("-")[0]),
        "name": machine["name"],
        "zone": f"projects/{number}/zones/{machine['zone']}",
        "machine-type": f"projects/{number}/machineTypes/imitated",
        "preempted": notice.get("preempted", "FALSE"),
        "maintenance-event": notice.get("maintenance-event", "NONE"),
        "upcoming-maintenance": json.dumps(notice["window"]) if notice.get("window") else NO_MAINTENANCE,
        "network-interfaces": {"0": interface},
        "service-accounts": accounts,
    }
    project = {"project-id": machine["project"], "numeric-project-id": number, "attributes": attributes}
    return {"instance": instance, "project": project, "universe": {"universe-domain": "googleapis.com"}}


def _shown(call: Call, found: Any, etag: str) -> Reply:
    as_json = call.query.get("alt") == "json"
    if isinstance(found, dict) and "access_token" in found:
        return _json(found, etag)
    if isinstance(found, dict) and not call.flag("recursive"):
        names = "".join(f"{name}/\n" if isinstance(value, dict) else f"{name}\n" for name, value in found.items())
        return _text(names, etag=etag)
    if isinstance(found, dict) or as_json:
        return _json(_camel(found), etag)
    return _text("\n".join(map(str, found)) + "\n" if isinstance(found, list) else str(found), etag=etag)


def _camel(value: Any, as_is: bool = False) -> Any:
    """Recursive answers spell folder names in camel case, but never the names of attributes."""
    if not isinstance(value, dict):
        return value
    shown = {}
    for name, inner in value.items():
        head, *rest = name.split("-")
        spelled = name if as_is or "@" in name else head + "".join(part.capitalize() for part in rest)
        shown[spelled] = _camel(inner, as_is=name == "attributes")
    return shown


def _json(document: Any, etag: str) -> Reply:
    headers = {**HEADERS, "Content-Type": "application/json", "ETag": etag}
    return Reply(200, headers, json.dumps(document).encode())


def _text(text: str, status: int = 200, etag: str = "") -> Reply:
    headers = {**HEADERS, "Content-Type": "application/text"}
    return Reply(status, {**headers, "ETag": etag} if etag else headers, text.encode())


def _missing() -> Reply:
    return _text("Not Found", 404)
