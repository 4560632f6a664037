"""OS Login: a user's profile with the keys in it, and what a machine asks its metadata server about who may enter.

As on Google's images: where `enable-oslogin` is on, keys in metadata count for nothing, and the machine asks for the
profile of whoever knocks, then whether that account may log in (`compute.instances.osLogin`, google-cloud.md 3.4.3).
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.identity import access, permissions, tokens
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.wire import Reply, json_reply
from tpuops.localcloud.core.world import Document

KIND = "oslogin.user"
LOGIN = {"login": "compute.instances.osLogin", "adminLogin": "compute.instances.osAdminLogin"}
HEADERS = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}


def profile(call: Call) -> Answer:
    """GET v1/users/U/loginProfile."""
    email = _email(call)
    return _profile(email, _alive(call, email))


def import_key(call: Call) -> Answer:
    """POST v1/users/U:importSshPublicKey: a key, kept under its fingerprint."""
    email, body = _email(call), call.body()
    text = str(body.get("key") or "").strip()
    if not re.fullmatch(r"(ssh|ecdsa|sk)-\S+ [A-Za-z0-9+/=]+( .*)?", text):
        raise refuse("oslogin.format")
    mark = hashlib.sha256(text.encode()).hexdigest()
    return {"loginProfile": _profile(email, _put(call, email, mark, {"key": text, **_end(body)}))}


def patch_key(call: Call) -> Answer:
    """PATCH v1/users/U/sshPublicKeys/F?updateMask=expirationTimeUsec."""
    email, mark = _email(call), call.params["key"]
    known = _alive(call, email)
    if mark not in known:
        raise refuse("oslogin.absent", name=f"users/{email}/sshPublicKeys/{mark}")
    _put(call, email, mark, {"key": known[mark]["key"], **_end(call.body())})
    return _shown(email, mark, _alive(call, email)[mark])


def delete_key(call: Call) -> Answer:
    """DELETE v1/users/U/sshPublicKeys/F."""
    email, mark = _email(call), call.params["key"]
    known = _alive(call, email)
    if mark not in known:
        raise refuse("oslogin.absent", name=f"users/{email}/sshPublicKeys/{mark}")
    call.world.put(KIND, email, {"keys": {other: key for other, key in known.items() if other != mark}})
    return {}


def users(call: Call) -> Answer:
    """GET /m/M/computeMetadata/v1/oslogin/users?username=N: the profile behind a name on this machine."""
    if not _from_machine(call):
        return Reply(404, HEADERS, b"Not Found")
    wanted = call.query.get("username", "")
    for email, _ in call.world.items(KIND):
        if name_of(email) == wanted:
            return json_reply({"loginProfiles": [_profile(email, _alive(call, email))]}, headers=HEADERS)
    return Reply(404, HEADERS, b"{}")


def authorize(call: Call) -> Answer:
    """GET /m/M/computeMetadata/v1/oslogin/authorize?email=E&policy=login: whether the account may enter."""
    if not _from_machine(call):
        return Reply(404, HEADERS, b"Not Found")
    machine = call.world.get("machine", call.params["machine"]) or {}
    email, wanted = call.query.get("email", ""), LOGIN.get(call.query.get("policy", "login"), "")
    held = access.held_by(call.world, email, str(machine.get("project", "")))
    granted = not access.rules(call.world).get("enforce") or permissions.grants(held, wanted)
    return json_reply({"success": bool(wanted and granted)}, headers=HEADERS)


def name_of(email: str) -> str:
    """The user name that an account has on machines."""
    if email.endswith(".gserviceaccount.com"):
        return f"sa_{project_number(email)}"
    return re.sub(r"[^a-z0-9]", "_", email.lower())[:32]


def _email(call: Call) -> str:
    """Whose profile: `me` is whoever calls."""
    said = call.params["user"]
    caller = access.caller_of(call)
    return said if said != "me" else caller.email if caller is not None else tokens.USER


def _from_machine(call: Call) -> bool:
    machine = call.world.get("machine", call.params["machine"])
    return bool(machine and machine["running"]) and call.request.headers.get("metadata-flavor") == "Google"


def _alive(call: Call, email: str) -> dict[str, Document]:
    """The keys whose time is not over."""
    keys = (call.world.get(KIND, email) or {"keys": {}})["keys"]
    return {mark: key for mark, key in keys.items() if not key["end"] or int(key["end"]) / 1e6 > call.now}


def _put(call: Call, email: str, mark: str, key: Document) -> dict[str, Document]:
    keys = {**_alive(call, email), mark: key}
    call.world.put(KIND, email, {"keys": keys})
    return keys


def _end(body: Document) -> Document:
    return {"end": str(body.get("expirationTimeUsec") or "")}


def _profile(email: str, keys: dict[str, Document]) -> Document:
    name = name_of(email)
    uid = str(1_000_000_000 + int(project_number(email)) % 1_000_000_000)
    account: dict[str, Any] = {"primary": True, "username": name, "uid": uid, "gid": uid}
    account |= {"homeDirectory": f"/home/{name}", "shell": "/bin/bash", "operatingSystemType": "LINUX"}
    shown: Document = {"name": email, "posixAccounts": [account]}
    listed = {mark: _shown(email, mark, key) for mark, key in keys.items()}
    return {**shown, "sshPublicKeys": listed} if listed else shown


def _shown(email: str, mark: str, key: Document) -> Document:
    end = {"expirationTimeUsec": key["end"]} if key["end"] else {}
    return {"key": key["key"], "fingerprint": mark, "name": f"users/{email}/sshPublicKeys/{mark}", **end}
