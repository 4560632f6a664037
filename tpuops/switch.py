"""The dead-man's switch as data: how long a lease counts, and what the reaper on a machine is told. Pure.

A controller knows that it lost its lease after `ttl_s`; a reaper acts after `grace_s`, which is three times that or
more. So whoever cannot renew stops acting long before a machine takes it for dead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tpuops import templates
from tpuops.resources import Owned, Place

TTL_S = 60.0
GRACE_S = 900.0
PARTS = 3
"""A lease counts for at most this part of its grace."""

BOOT_S = 900.0
"""A TPU from the queue that no controller comes to ends itself after this long."""

BEHIND = 1.0
"""How many graces later the VM acts: worker 0 comes first, since only it can save the outputs."""

DOUBT = 4.0
"""For how many graces results are tried to be saved, and a lease that cannot be read counts as held past its end."""


@dataclass(frozen=True, slots=True)
class Terms:
    """For how long a lease counts: to its holder (`ttl_s`), and to the machines' reapers (`grace_s`)."""

    ttl_s: float = TTL_S
    grace_s: float = GRACE_S

    @property
    def renew_s(self) -> float:
        """How often the holder writes it anew."""
        return self.ttl_s / 4


def terms(grace: timedelta) -> Terms:
    """The terms for a file's `limits.abandoned`."""
    grace_s = grace.total_seconds()
    return Terms(min(TTL_S, grace_s / PARTS), grace_s)


@dataclass(frozen=True, slots=True)
class Keeper:
    """What a machine must know to keep the lease of the run that lives on it, in its controller's stead.

    `machine` does, since `user` left the run to it at `since`, until `until` (epoch seconds, by the server's clock) and
    as long as the run says something every `stall_s` seconds (None: for ever). `success` and `failure` say what becomes
    of the machines then: delete or keep.
    """

    run_id: str
    machine: str
    user: str
    since: str
    until: float
    stall_s: float | None
    success: str
    failure: str


@dataclass(frozen=True, slots=True)
class Watched:
    """What the reapers of one environment watch and may delete. `vm` is None where no machine may stand beside."""

    owned: Owned
    bucket: str
    node: tuple[Place, str]
    vm: tuple[Place, str] | None
    end: datetime


def orders(role: str, watched: Watched, agreed: Terms) -> Mapping[str, str]:
    """The metadata that starts a reaper on a machine and tells it what it must know; `role` is node or vm."""
    told = {
        "role": role,
        "bucket": watched.bucket,
        "lease": f"tpuops/{watched.owned.environment}/lease.json",
        "host_keys": host_keys_below(watched.owned.environment),
        "labels": watched.owned.labels,
        "node": _at(watched.node),
        "vm": None if watched.vm is None else _at(watched.vm),
        "end": watched.end.timestamp(),
        "ttl_s": agreed.ttl_s,
        "grace_s": agreed.grace_s,
        "behind_s": agreed.grace_s * BEHIND if role == "vm" else 0.0,
        "boot_s": min(BOOT_S, agreed.grace_s),
        "doubt_s": agreed.grace_s * DOUBT,
        "look_s": max(0.5, min(45.0, agreed.grace_s / 20)),
    }
    return {"startup-script": templates.reaper_script(), "tpuops-reaper": json.dumps(told, sort_keys=True)}


def host_keys_below(environment: str) -> str:
    """Where in the home bucket the machines of an environment (its slug) say which host keys they have."""
    return f"tpuops/{environment}/hostkeys/"


def _at(where: tuple[Place, str]) -> dict[str, str]:
    place, name = where
    return {"project": place.project, "zone": place.zone, "name": name}
