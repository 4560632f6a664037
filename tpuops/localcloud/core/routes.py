"""Which path belongs to which method: one table per service, matched on the encoded path.

A template's `{name}` stands for one path segment, `{name:path}` for the rest. Method names are service, collection and
verb, as fault scripts and the request log use them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from tpuops.localcloud.core.scene import Method


@dataclass(frozen=True, slots=True)
class Route:
    """One method. `mutating` says whether it can change anything."""

    verb: str
    template: str
    method: str
    function: Method

    @property
    def service(self) -> str:
        """The first part of the method's name."""
        return self.method.partition(".")[0]

    @property
    def mutating(self) -> bool:
        """Whether a call may change a resource; reading by POST is still reading."""
        reading = self.method.endswith((".get", ".list", ".wait", ".getGuestAttributes", ".aggregatedList"))
        return self.verb != "GET" and not reading and self.service not in {"identity", "metadata", "cloud"}


class Routes:
    """All routes, found by verb and path; the first that fits wins."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.all = tuple(routes)
        self._compiled = [(route, re.compile(_pattern(route.template))) for route in routes]

    def find(self, verb: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route and its decoded parameters."""
        for route, pattern in self._compiled:
            found = pattern.fullmatch(path) if route.verb == verb else None
            if found:
                return route, {name: unquote(value) for name, value in found.groupdict().items()}
        return None


def service_of(path: str) -> str:
    """The service a path would belong to, for the shape of its error."""
    for start, service in (("/v2/", "tpu"), ("/compute/", "compute"), ("/token", "identity"), ("/m/", "metadata")):
        if path.startswith(start):
            return service
    return "cloud" if path.startswith("/_cloud/") else "storage"


def _pattern(template: str) -> str:
    pattern = ""
    for part in re.split(r"(\{\w+(?::path)?\})", template):
        if part.endswith(":path}"):
            pattern += f"(?P<{part[1:-6]}>.+)"
        elif part.startswith("{"):
            pattern += f"(?P<{part[1:-1]}>[^/:]+)"
        else:
            pattern += re.escape(part)
    return pattern
