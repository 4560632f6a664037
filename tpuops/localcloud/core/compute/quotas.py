"""Compute Engine's quotas of a region: what is used, and, where a test sets a limit, the refusal beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tpuops.facts.catalogue import region_of
from tpuops.localcloud.core.compute import catalogue
from tpuops.localcloud.core.compute.links import last
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.world import Document

KIND = "compute.instance"
UNLIMITED = 100_000
METRICS = ("CPUS", "N2_CPUS", "N2D_CPUS", "C3_CPUS", "INSTANCES", "IN_USE_ADDRESSES")


def shown(call: Call, region: str) -> Iterator[Document]:
    """Each metric with its limit and what the region's instances use."""
    used = _used(call, region)
    for metric in METRICS:
        limit = settings.limit(call.world, metric, region)
        yield {"metric": metric, "limit": UNLIMITED if limit is None else limit, "usage": used[metric]}


def check(call: Call, wanted: Mapping[str, Any]) -> None:
    """Raise where an instance would go beyond a limit."""
    region = region_of(call.params["zone"])
    used, needed = _used(call, region), _needs(wanted)
    for metric, amount in needed.items():
        limit = settings.limit(call.world, metric, region)
        if limit is not None and used[metric] + amount > limit:
            raise refuse("compute.quota", metric=metric, limit=float(limit), region=region)


def _used(call: Call, region: str) -> dict[str, int]:
    used = dict.fromkeys(METRICS, 0)
    for key, instance in call.world.items(KIND, f"{call.params['project']}/"):
        if region_of(key.split("/")[1]) == region and instance["status"] != "TERMINATED":
            for metric, amount in _needs(instance).items():
                used[metric] += amount
    return used


def _needs(instance: Mapping[str, Any]) -> dict[str, int]:
    """Shared and first-generation families count as CPUS, the others by their own name."""
    machine_type = last(instance["machineType"])
    own = f"{machine_type.partition('-')[0].upper()}_CPUS"
    addresses = sum(len(interface.get("accessConfigs", ())) for interface in instance["networkInterfaces"])
    cpus = catalogue.machine_types().get(machine_type, (0, 0))[0]
    return {own if own in METRICS else "CPUS": cpus, "INSTANCES": 1, "IN_USE_ADDRESSES": addresses}
