"""Plain JSON over HTTP for the APIs around machines: quotas, networks, accounts, policies, services.

They are asked rarely, for a few fields each, so that a client library of a second's import would not pay
(google-cloud.md 0.5). Methods are synchronous and run in the threads of `calls`; nothing here repeats or classifies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from tpuops.cloud.calls import TIMEOUT_S
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.threads import Once

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.auth.transport.requests import AuthorizedSession

MOST_PAGES = 100


class Rest:
    """Requests to any service of a set of endpoints. `path` starts with a slash and has the API's version in it."""

    def __init__(self, endpoints: Endpoints, who: Callable[[], Credentials]) -> None:
        self._endpoints, self._who = endpoints, who
        self._session = Once(self._build)

    def _build(self) -> AuthorizedSession:
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415

        return AuthorizedSession(self._who(), max_refresh_attempts=1)

    def account(self) -> str:
        """The service account that asks; empty where a person does."""
        from google.auth.transport.requests import Request  # noqa: PLC0415

        who = self._who()
        email = getattr(who, "service_account_email", None) or ""
        if email == "default":  # a machine's own account has its name only after the first token
            who.refresh(Request())
            email = getattr(who, "service_account_email", None) or ""
        return str(email)

    def json(
        self, service: str, verb: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """The JSON of a call that succeeded. Raises `GoogleAPICallError` with the reply in it."""
        from google.api_core import exceptions as api  # noqa: PLC0415

        url = self._endpoints.of(service) + path
        reply = self._session().request(
            verb, url, params=dict(query or {}), json=body, timeout=TIMEOUT_S, max_allowed_time=TIMEOUT_S
        )
        if not reply.ok:
            raise api.from_http_response(reply)
        found: dict[str, Any] = reply.json() if reply.content else {}
        return found

    def date(self, service: str, path: str) -> datetime | None:
        """The server's own clock, whatever it answers otherwise; None where a proxy drops it.

        Asked without a login, which a wrong clock may have broken.
        """
        import requests  # noqa: PLC0415

        reply = requests.get(self._endpoints.of(service) + path, timeout=TIMEOUT_S)
        said = reply.headers.get("Date")
        return parsedate_to_datetime(said) if said else None

    def pages(self, service: str, path: str, items: str, query: Mapping[str, Any] | None = None) -> list[Any]:
        """Everything that a list has under `items`, all pages."""
        found: list[Any] = []
        token = ""
        for _ in range(MOST_PAGES):
            page = self.json(service, "GET", path, {**(query or {}), **({"pageToken": token} if token else {})})
            found += page.get(items, [])
            token = page.get("nextPageToken", "")
            if not token:
                break
        return found
