"""OS Login: a user's profile and the keys imported into it. Machines with `enable-oslogin` still ignore metadata keys.

Imitated: a machine does not ask OS Login who may enter, so that such a machine lets nobody in.
"""

from __future__ import annotations

import hashlib
import re

from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

KIND = "oslogin.user"


def profile(call: Call) -> Answer:
    """GET v1/users/U/loginProfile."""
    return _profile(call)


def import_key(call: Call) -> Answer:
    """POST v1/users/U:importSshPublicKey: a key, kept under its fingerprint."""
    key = str(call.body().get("key") or "")
    stored = call.world.get(KIND, call.params["user"]) or {"keys": {}}
    mark = hashlib.sha256(key.encode()).hexdigest()
    stored["keys"][mark] = {"key": key, "fingerprint": mark}
    call.world.put(KIND, call.params["user"], stored)
    return {"loginProfile": _profile(call)}


def _profile(call: Call) -> Document:
    user = call.params["user"]
    stored = call.world.get(KIND, user) or {"keys": {}}
    name = re.sub(r"[^a-z0-9]+", "_", user.lower()).strip("_")
    account = {"primary": True, "username": name, "uid": "1001", "gid": "1001", "homeDirectory": f"/home/{name}"}
    shown: Document = {
        "name": user,
        "posixAccounts": [{**account, "shell": "/bin/bash", "operatingSystemType": "LINUX"}],
    }
    return {**shown, "sshPublicKeys": stored["keys"]} if stored["keys"] else shown
