"""A login of an embedded cloud, wrapped: of what google-auth would do with it, only the fetching of tokens is left.

google-auth asks Google, in the background, where a service account may be used, and shows it the token for that; a
client library signs a service account's requests itself. Neither happens with these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.auth import credentials

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

QUOTA_HEADER = "x-goog-user-project"


class Confined(credentials.Credentials):  # type: ignore[misc]  # google-auth has no types
    """The inner credentials' tokens, and the quota project beside them."""

    def __init__(self, inner: Credentials, quota_project: str) -> None:
        super().__init__()
        self._inner, self._quota_project = inner, quota_project

    def refresh(self, request: Any) -> None:
        """A new token from the embedded cloud."""
        self._inner.refresh(request)
        self.token, self.expiry = self._inner.token, self._inner.expiry

    def apply(self, headers: Any, token: str | None = None) -> None:
        """Put the token, and the project that calls count for, into a request's headers."""
        super().apply(headers, token)
        if self._quota_project:
            headers[QUOTA_HEADER] = self._quota_project
