"""Names and numbers the services invent: drawn from one seed and a counter that the world remembers.

The same seed and the same calls give the same ids, also across a restart of the program. Nothing here reads a clock or
a source of entropy.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tpuops.localcloud.core.world import World


class Draw:
    """A stream of invented values; `seed` belongs to the cloud's first start and is remembered."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._seed = seed

    def hex(self, digits: int) -> str:
        """That many hexadecimal digits."""
        counter = self._world.get("cloud", "draw") or {"seed": self._seed, "drawn": 0}
        counter["drawn"] += 1
        self._world.put("cloud", "draw", counter)
        return hashlib.sha256(f"{counter['seed']}/{counter['drawn']}".encode()).hexdigest()[:digits]

    def number(self) -> str:
        """A resource id: nineteen digits, as a string."""
        return str(10**18 + int(self.hex(14), 16) % (8 * 10**18))

    def operation(self, now: float) -> str:
        """An operation's name in the services' own form (facts: google-cloud.md 2.3)."""
        digits = self.hex(29)
        return f"operation-{int(now * 1000)}-{digits[:13]}-{digits[13:21]}-{digits[21:29]}"

    def eid(self) -> str:
        """The error id that the TPU service ends its messages with."""
        return f"[EID: 0x{self.hex(16)}]"


@lru_cache(maxsize=1024)
def project_number(project: str) -> str:
    """A project's number: twelve digits that follow from its id; a number stands for itself."""
    if project.isdigit():
        return project
    return str(10**11 + int(hashlib.sha256(project.encode()).hexdigest()[:12], 16) % (9 * 10**11))


def default_account(project: str) -> str:
    """The Compute Engine default service account of a project (facts: google-cloud.md 3.1.3)."""
    return f"{project_number(project)}-compute@developer.gserviceaccount.com"


def fingerprint(value: Any) -> str:
    """Base64 of eight bytes that follow from the value, as Compute shows fingerprints and labels' versions."""
    return base64.b64encode(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:8]).decode()


def timestamp(at: float) -> str:
    """RFC 3339 with microseconds, as the TPU and Compute services write times."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def short_timestamp(at: float) -> str:
    """RFC 3339 with milliseconds, as Storage writes times."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_timestamp(text: str) -> float:
    """Epoch seconds of an RFC 3339 time. Raises ValueError."""
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
