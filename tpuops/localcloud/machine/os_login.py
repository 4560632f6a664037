"""What a machine asks its metadata server before it lets somebody in by OS Login, as Google's guest does at each login.

Keys in metadata are not looked at here. Whatever goes wrong lets nobody in.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

_TIMEOUT_S = 10.0
_TRUE = {"true", "y", "yes", "1"}


class OsLogin:
    """The metadata server at `host` (`127.0.0.1:PORT/...`)."""

    def __init__(self, host: str) -> None:
        self._base = f"http://{host}/computeMetadata/v1"

    def admits(self, user: str, public: str) -> bool:
        """Whether OS Login is on here, knows the key under that name, and its account may log in. Blocks."""
        if not self._is_on():
            return False
        found = self._asked(f"/oslogin/users?username={urllib.parse.quote(user)}") or {}
        for profile in found.get("loginProfiles", []):
            keys = profile.get("sshPublicKeys", {}).values()
            if any(key["key"].split()[:2] == public.split() for key in keys):
                email = urllib.parse.quote(profile["name"])
                answer = self._asked(f"/oslogin/authorize?email={email}&policy=login") or {}
                return answer.get("success") is True
        return False

    def _is_on(self) -> bool:
        for folder in ("instance", "project"):
            said = self._text(f"/{folder}/attributes/enable-oslogin")
            if said is not None:
                return said.strip().lower() in _TRUE
        return False

    def _asked(self, path: str) -> dict[str, Any] | None:
        said = self._text(path)
        try:
            found = json.loads(said) if said else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def _text(self, path: str) -> str | None:
        request = urllib.request.Request(self._base + path, headers={"Metadata-Flavor": "Google"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
                return str(reply.read().decode("utf-8", "replace"))
        except (urllib.error.URLError, OSError):
            return None
