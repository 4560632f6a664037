"""Secret Manager v1: secrets, their versions, and the one call that hands a value out. Replication is believed.

Facts: the REST reference of `projects.secrets` and `projects.secrets.versions`; a version is named by its number or
`latest`, only an ENABLED one is handed out, and a 403 never tells whether the secret exists.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

import google_crc32c

from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.routes import Route
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

KIND = "secretmanager.secret"
LARGEST_BYTES = 64 * 1024
_SECRETS = "/secretmanager/v1/projects/{project}/secrets"
_SECRET = f"{_SECRETS}/{{secret}}"
_VERSION = f"{_SECRET}/versions/{{version}}"


def create(call: Call) -> Answer:
    """POST v1/projects/P/secrets?secretId=S."""
    project, name = call.params["project"], call.query.get("secretId", "")
    if not name:
        raise refuse("secret.argument", problem="The secret id is missing.")
    if call.world.get(KIND, f"{project}/{name}") is not None:
        raise refuse("secret.exists", secret=_name(project, name))
    body = call.body()
    made: Document = {
        "created": _time(call),
        "replication": body.get("replication") or {"automatic": {}},
        "labels": body.get("labels") or {},
        "versions": [],
    }
    return _shown(project, name, call.world.put(KIND, f"{project}/{name}", made))


def get(call: Call) -> Answer:
    """GET v1/projects/P/secrets/S."""
    return _shown(call.params["project"], call.params["secret"], _stored(call))


def listing(call: Call) -> Answer:
    """GET v1/projects/P/secrets, one page."""
    prefix = f"{call.params['project']}/"
    found = [(key.removeprefix(prefix), each) for key, each in call.world.items(KIND) if key.startswith(prefix)]
    shown = [_shown(call.params["project"], name, each) for name, each in found]
    return {"secrets": shown, "totalSize": len(shown)} if shown else {}


def delete(call: Call) -> Answer:
    """DELETE v1/projects/P/secrets/S: with all its versions."""
    _stored(call)
    call.world.drop(KIND, _key(call))
    return {}


def add_version(call: Call) -> Answer:
    """POST v1/projects/P/secrets/S:addVersion."""
    stored, given = _stored(call), call.body().get("payload") or {}
    try:
        data = base64.b64decode(given.get("data", "").replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, AttributeError):
        raise refuse("bad-json", problem="Invalid value at 'payload.data' (TYPE_BYTES)") from None
    if len(data) > LARGEST_BYTES:
        raise refuse("secret.argument", problem="The payload is larger than 65536 bytes.")
    sent = given.get("dataCrc32c")
    if sent is not None and str(sent) != str(google_crc32c.value(data)):
        raise refuse("secret.argument", problem="The payload does not match its checksum.")
    kept = base64.b64encode(data).decode()
    version = {"created": _time(call), "state": "ENABLED", "data": kept, "checked": sent is not None}
    stored["versions"].append(version)
    call.world.put(KIND, _key(call), stored)
    return _version(call, len(stored["versions"]), version)


def version_get(call: Call) -> Answer:
    """GET v1/projects/P/secrets/S/versions/V."""
    return _version(call, *_found(call))


def version_list(call: Call) -> Answer:
    """GET v1/projects/P/secrets/S/versions, newest first, one page."""
    numbered = list(enumerate(_stored(call)["versions"], 1))[::-1]
    return {"versions": [_version(call, *each) for each in numbered], "totalSize": len(numbered)} if numbered else {}


def access(call: Call) -> Answer:
    """GET v1/projects/P/secrets/S/versions/V:access."""
    number, version = _found(call)
    if version["state"] != "ENABLED":
        raise refuse("secret.state", version=_version_name(call, number), state=version["state"])
    checksum = google_crc32c.value(base64.b64decode(version["data"]))
    return {
        "name": _version_name(call, number),
        "payload": {"data": version["data"], "dataCrc32c": str(checksum)},  # a 64-bit integer, so a text
    }


def disable(call: Call) -> Answer:
    """POST v1/projects/P/secrets/S/versions/V:disable."""
    return _turned(call, "DISABLED")


def enable(call: Call) -> Answer:
    """POST v1/projects/P/secrets/S/versions/V:enable."""
    return _turned(call, "ENABLED")


def _turned(call: Call, state: str) -> Answer:
    stored, (number, version) = _stored(call), _found(call)
    stored["versions"][number - 1] = {**version, "state": state}
    call.world.put(KIND, _key(call), stored)
    return _version(call, number, stored["versions"][number - 1])


def _found(call: Call) -> tuple[int, Document]:
    """A version with its number."""
    versions, wanted = _stored(call)["versions"], call.params["version"]
    number = len(versions) if wanted == "latest" else int(wanted) if wanted.isdigit() else 0
    if not 1 <= number <= len(versions):
        raise refuse(
            "secret.absent", secret=f"{_name(call.params['project'], call.params['secret'])}/versions/{wanted}"
        )
    return number, versions[number - 1]


def _stored(call: Call) -> Document:
    found = call.world.get(KIND, _key(call))
    if found is None:
        raise refuse("secret.absent", secret=_name(call.params["project"], call.params["secret"]))
    return found


def _key(call: Call) -> str:
    return f"{call.params['project']}/{call.params['secret']}"


def _name(project: str, secret: str) -> str:
    return f"projects/{project_number(project)}/secrets/{secret}"


def _version_name(call: Call, number: int) -> str:
    return f"{_name(call.params['project'], call.params['secret'])}/versions/{number}"


def _shown(project: str, name: str, stored: Document) -> Document:
    shown = {"name": _name(project, name), "createTime": stored["created"], "replication": stored["replication"]}
    return {**shown, "labels": stored["labels"]} if stored["labels"] else shown


def _version(call: Call, number: int, version: Document) -> Document:
    return {
        "name": _version_name(call, number),
        "createTime": version["created"],
        "state": version["state"],
        "replicationStatus": {"automatic": {}},
        "clientSpecifiedPayloadChecksum": version["checked"],
    }


def _time(call: Call) -> str:
    return datetime.fromtimestamp(call.now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


METHODS = (
    Route("POST", _SECRETS, "secretmanager.secrets.create", create, "replication has no effect"),
    Route("GET", _SECRETS, "secretmanager.secrets.list", listing, "one page"),
    Route("GET", _SECRET, "secretmanager.secrets.get", get),
    Route("DELETE", _SECRET, "secretmanager.secrets.delete", delete),
    Route("POST", f"{_SECRET}:addVersion", "secretmanager.versions.add", add_version),
    Route("GET", f"{_SECRET}/versions", "secretmanager.versions.list", version_list, "one page"),
    Route("GET", f"{_VERSION}:access", "secretmanager.versions.access", access),
    Route("POST", f"{_VERSION}:disable", "secretmanager.versions.disable", disable),
    Route("POST", f"{_VERSION}:enable", "secretmanager.versions.enable", enable),
    Route("GET", _VERSION, "secretmanager.versions.get", version_get),
)
