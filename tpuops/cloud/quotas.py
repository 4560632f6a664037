"""Quotas and what holds them, as JSON into our values. Pure; `surroundings` does the asking.

Shapes: Cloud Quotas v1 `QuotaInfo.dimensionsInfos` (the Cloud SDK's client of it), Compute's `Region.quotas`, and the
TPU API's queued resources, which keep their quota in every state until they are deleted (google-cloud.md 2.5, 2.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpuops.resources import Holding, Limit, Place

UNLIMITED = -1


def limits(infos: Iterable[Mapping[str, Any]], place: str) -> tuple[Limit, ...]:
    """What each quota allows in a zone or region: the most specific entry that speaks of it decides."""
    found = ((info["quotaId"], _value(info, place)) for info in infos)
    return tuple(Limit(quota_id, place, value) for quota_id, value in found if value is not None)


def _value(info: Mapping[str, Any], place: str) -> int | None:
    """The value in force; None where nothing speaks of the place, or nothing is limited.

    int64 come as texts, and one that is 0 does not come at all.
    """
    for entry in info.get("dimensionsInfos", []):
        dimensions = entry.get("dimensions", {})
        named = dimensions.get("zone") or dimensions.get("region")
        here = named == place if named else place in entry.get("applicableLocations", [])
        if here and "details" in entry:
            value = int(entry["details"].get("value", 0))
            return None if value == UNLIMITED else value
    return None


def of_region(region: Mapping[str, Any]) -> tuple[Limit, ...]:
    """Compute Engine's quotas of a region, with what is used of them."""
    return tuple(
        Limit(each["metric"], region["name"], int(each.get("limit", 0)), int(each.get("usage", 0)))
        for each in region.get("quotas", [])
    )


def holdings(queued: Iterable[Mapping[str, Any]]) -> tuple[Holding, ...]:
    """What queued resources hold."""
    return tuple(each for one in queued for each in _held(one))


def _held(one: Mapping[str, Any]) -> Iterator[Holding]:
    _, project, _, zone, _, name = one["name"].split("/")
    spot = "spot" in one or one.get("provisioningModel") in {"SPOT", "FLEX_START"} or "bestEffort" in one
    for spec in one.get("tpu", {}).get("nodeSpec", []):
        several = spec.get("multisliceParams") or spec.get("multiNodeParams") or {}
        slices = int(several.get("nodeCount", 1))
        kind = spec.get("node", {}).get("acceleratorType", "")
        yield Holding(name, Place(project, zone), kind, spot, slices, one.get("state", {}).get("state", ""))
