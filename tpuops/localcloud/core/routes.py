"""Which path belongs to which method: one table per service, matched on the encoded path.

A template's `{name}` stands for one path segment, `{name:path}` for the rest. Method names are service, collection and
verb, as fault scripts and the request log use them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import unquote

from tpuops.localcloud.core.scene import Method

_SERVICES = {
    "v2": "tpu",
    "v2alpha1": "tpu",
    "compute": "compute",
    "token": "identity",
    "tokeninfo": "identity",
    "m": "metadata",
    "serviceusage": "serviceusage",
    "cloudquotas": "cloudquotas",
    "iam": "iam",
    "resourcemanager": "resourcemanager",
    "secretmanager": "secretmanager",
    "oslogin": "oslogin",
    "iap": "iap",
    "sts": "identity",
    "iamcredentials": "iamcredentials",
    "_cloud": "cloud",
}
KNOWN_PATHS = 4096
"""As many paths are remembered with their routes: callers ask for the same things again and again."""


@dataclass(frozen=True)
class Route:
    """One method. `imitated` says what the real service does and this one only pretends; empty where nothing."""

    verb: str
    template: str
    method: str
    function: Method
    imitated: str = ""

    @cached_property
    def service(self) -> str:
        """The first part of the method's name."""
        return self.method.partition(".")[0]

    @cached_property
    def mutating(self) -> bool:
        """Whether a call may change a resource; reading by POST is still reading."""
        reading = self.method.endswith(
            (".get", ".list", ".wait", ".getGuestAttributes", ".aggregatedList", "getIamPolicy", "testIamPermissions")
        )
        return self.verb != "GET" and not reading and self.service not in {"identity", "metadata", "cloud"}


class Routes:
    """All routes, found by verb and path; the first that fits wins."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.all = tuple(routes)
        self._compiled: dict[tuple[str, str], list[tuple[Route, re.Pattern[str]]]] = {}
        for route in routes:
            rooted = self._compiled.setdefault((route.verb, _root(route.template)), [])
            rooted.append((route, re.compile(_pattern(route.template))))
        self._found = lru_cache(KNOWN_PATHS)(self._search)

    def find(self, verb: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route and its decoded parameters."""
        found = self._found(verb, path)
        return found and (found[0], dict(found[1]))

    def _search(self, verb: str, path: str) -> tuple[Route, dict[str, str]] | None:
        for route, pattern in self._compiled.get((verb, _root(path)), ()):
            found = pattern.fullmatch(path)
            if found:
                return route, {name: unquote(value) for name, value in found.groupdict().items()}
        return None


def service_of(path: str) -> str:
    """The service a path would belong to, for the shape of its error."""
    return _SERVICES.get(_root(path), "storage")


def _root(path: str) -> str:
    """The first segment: it alone says which service is meant."""
    return path.split("/", 2)[1] if path.startswith("/") else ""


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
