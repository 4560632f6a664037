"""Who a login is and what it is good for, as Google says it: tokeninfo, and on a machine the metadata server.

A login file does not say which scopes were granted, and google-auth repeats what was asked for (google-cloud.md 5.4,
5.5). The token stays in this module: it is sent as a header, and never returned, shown or kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tpuops.cloud import login as logins
from tpuops.cloud.calls import TIMEOUT_S, Caller
from tpuops.cloud.credentials import credentials
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.login import Login

METADATA = "/computeMetadata/v1/instance/service-accounts/default"


@dataclass(frozen=True, slots=True)
class Identity:
    """`email` is empty for federated logins, `scopes` where nobody would say them. `expires_in_s` is the token's."""

    login: Login
    email: str = ""
    scopes: tuple[str, ...] = ()
    expires_in_s: int | None = None

    @property
    def is_anonymous(self) -> bool:
        """Whether calls go out without a login."""
        return self.login.source == "nobody"

    @property
    def member(self) -> str:
        """As IAM names it."""
        kind = "serviceAccount" if self.email.endswith("gserviceaccount.com") else "user"
        return f"{kind}:{self.email}" if self.email else "THIS-LOGIN"


async def identify(endpoints: Endpoints, caller: Caller) -> Identity:
    """Exchange the login for a token once, and ask what it is good for.

    Raises:
        AccessError: there is no login, or it does not work any more.
    """
    login = logins.in_force(endpoints)
    if login.source == "nobody":
        return Identity(login)
    return await caller.ask("oauth2.tokeninfo", login.account, lambda: _identified(endpoints, login))


def _identified(endpoints: Endpoints, login: Login) -> Identity:
    import requests  # noqa: PLC0415
    from google.auth.transport.requests import Request  # noqa: PLC0415

    who = credentials(endpoints)
    with requests.Session() as session:
        who.refresh(partial(Request(session), timeout=TIMEOUT_S))
        info = _tokeninfo(session, f"{endpoints.of('oauth2')}/tokeninfo", str(who.token))
        scopes = tuple(str(info.get("scope", "")).split())
        if login.kind == "machine":
            scopes = _of_machine(session) or scopes
    left = str(info.get("expires_in", ""))
    return Identity(login, str(info.get("email") or login.account), scopes, int(left) if left.isdigit() else None)


def _tokeninfo(session: Any, url: str, token: str) -> dict[str, Any]:
    """As Google's own library for Node asks, with the token in a header; else as it is documented, in the query."""
    ways: tuple[Callable[[], Any], ...] = (
        lambda: session.post(url, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S),
        lambda: session.get(url, params={"access_token": token}, timeout=TIMEOUT_S),
    )
    for way in ways:
        reply = way()
        if reply.ok:
            found: dict[str, Any] = reply.json()
            return found
    return {}


def _of_machine(session: Any) -> tuple[str, ...]:
    host = logins.machine_server() or "metadata.google.internal"
    reply = session.get(f"http://{host}{METADATA}/scopes", headers={"Metadata-Flavor": "Google"}, timeout=TIMEOUT_S)
    return tuple(reply.text.split()) if reply.ok else ()
