"""TPU quotas: which of the ids that Google lists bind a slice, and what a slice takes of them.

Sources: google-cloud.md 2.5, and ids seen in public logs (TPUV6EPerProjectPerZoneForTPUAPI, TPUV5sLitepodServing...,
TPUV5PPreemptible..., TPUV4sPreemptiblePod...). Which id binds which size, and whether a number counts cores or chips,
is inferred for some: where it is, the answer holds every possibility, and whoever decides must find them of one mind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tpuops.facts.catalogue import Accelerator

_ID = re.compile(
    r"TPU(?P<family>V2s|V3s|V4s|V5s|V5P|V6E)(?P<spot>Preemptible)?(?P<kind>[A-Za-z]*?)"
    r"PerProjectPer(?P<scope>Zone|Region)ForTPUAPI"
)
_FAMILIES = {"v2": "V2s", "v3": "V3s", "v4": "V4s", "v5e": "V5s", "v5p": "V5P", "v6e": "V6E"}
_CHIPS_ARE_CORES = frozenset({"v5e", "v6e"})


@dataclass(frozen=True, slots=True)
class QuotaId:
    """A quota's id in its parts; `kind` is what stands between (`Pod`, `Litepod`, `LitepodServing`, nothing)."""

    id: str
    family: str
    spot: bool
    kind: str
    zonal: bool


def parsed(quota_id: str) -> QuotaId | None:
    """A TPU quota's id in its parts; None for one of another form, such as those of request rates."""
    found = _ID.fullmatch(quota_id)
    if found is None:
        return None
    return QuotaId(quota_id, found["family"], bool(found["spot"]), found["kind"], found["scope"] == "Zone")


def binding(quota_ids: Iterable[str], accelerator: Accelerator, *, spot: bool) -> tuple[QuotaId, ...]:
    """The ids, of those listed, that may bind a slice.

    A slice of several machines is a pod where there is a quota for pods; one machine of v5e may count as serving.
    """
    family = _FAMILIES[accelerator.generation]
    known = [one for one in map(parsed, quota_ids) if one and one.family == family and one.spot == spot]
    pods = [one for one in known if one.kind.lower().endswith("pod")]
    return tuple(known if accelerator.single_host or not pods else pods)


def units(accelerator: Accelerator) -> tuple[int, int]:
    """What one slice takes at least and at most: chips or cores, as v2 to v5p quotas may be told in either."""
    if accelerator.generation in _CHIPS_ARE_CORES:
        return accelerator.chips, accelerator.chips
    return min(accelerator.chips, accelerator.cores), max(accelerator.chips, accelerator.cores)
