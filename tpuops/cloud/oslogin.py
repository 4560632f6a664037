"""OS Login v1: our own profile's keys, and the name it gives us on machines (google-cloud.md 3.4.3).

Only keys that the caller names are looked at, changed or removed; the profile's others are nobody's business here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tpuops.cloud.calls import Caller
from tpuops.cloud.rest import Rest
from tpuops.cloud.retry import repeatedly
from tpuops.errors import NotFound, Refused

SERVICE = "oslogin"


class OsLogin:
    """`Logins` over one set of endpoints."""

    def __init__(self, rest: Rest, caller: Caller) -> None:
        self._rest, self._caller = rest, caller

    async def login_as(self, project: str, public_key: str, need: datetime, expires: datetime) -> str:
        """Have the profile know the key until `need`, else until `expires` from now on; the user's name on machines."""
        profile = await self._ask("users.getLoginProfile", "GET", "/loginProfile", {"projectId": project})
        found = _of_key(profile, public_key)
        if found is None or _ends(found[1]) < need.timestamp():
            profile = await self._know(project, public_key, expires, "" if found is None else found[0]) or profile
        return _name(profile)

    async def login_name(self, public_key: str) -> tuple[str, bool]:
        """The user's name on machines, and whether the profile knows the key now. Changes nothing."""
        profile = await self._ask("users.getLoginProfile", "GET", "/loginProfile")
        return _name(profile), _of_key(profile, public_key) is not None

    async def forget_login(self, public_key: str) -> None:
        """Take the key out of the profile; one that is not there is fine."""
        found = _of_key(await self._ask("users.getLoginProfile", "GET", "/loginProfile"), public_key)
        if found is None:
            return
        try:
            await self._ask("users.sshPublicKeys.delete", "DELETE", f"/sshPublicKeys/{quote(found[0])}")
        except NotFound:
            return

    async def _know(self, project: str, public_key: str, expires: datetime, mark: str) -> dict[str, Any]:
        """A key that is there gets another end, a new one comes in; the profile where the service tells it."""
        end = {"expirationTimeUsec": str(int(expires.timestamp()) * 1_000_000)}
        if mark:
            path = f"/sshPublicKeys/{quote(mark)}"
            await self._ask("users.sshPublicKeys.patch", "PATCH", path, {"updateMask": "expirationTimeUsec"}, end)
            return {}
        body = {"key": public_key, **end}
        reply = await self._ask("users.importSshPublicKey", "POST", ":importSshPublicKey", {"projectId": project}, body)
        found: dict[str, Any] = reply.get("loginProfile", {})
        return found

    async def _ask(
        self, method: str, verb: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """One call on our own profile; each of them may be said twice."""

        def call() -> dict[str, Any]:
            return self._rest.json(SERVICE, verb, f"/v1/users/{quote(self._rest.account() or 'me')}{path}", query, body)

        return await repeatedly(lambda: self._caller.ask(f"{SERVICE}.{method}", "users/me", call), self._caller.clock)


def _of_key(profile: Mapping[str, Any], public_key: str) -> tuple[str, Mapping[str, Any]] | None:
    """The key's mark in the profile, and what is said of it; its comment does not matter."""
    for mark, known in profile.get("sshPublicKeys", {}).items():
        if str(known.get("key", "")).split()[:2] == public_key.split()[:2]:
            return str(mark), known
    return None


def _ends(known: Mapping[str, Any]) -> float:
    """Epoch seconds; for ever where nothing is said."""
    return int(known["expirationTimeUsec"]) / 1e6 if known.get("expirationTimeUsec") else float("inf")


def _name(profile: Mapping[str, Any]) -> str:
    accounts = profile.get("posixAccounts", [])
    chosen = next((each for each in accounts if each.get("primary")), accounts[0] if accounts else {})
    if not chosen.get("username"):
        raise Refused("OS Login gives this account no user name", method="oslogin.users.getLoginProfile")
    return str(chosen["username"])
