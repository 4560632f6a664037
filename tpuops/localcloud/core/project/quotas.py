"""Cloud Quotas v1, as far as it tells what a zone or region grants. Shape: the Cloud SDK's client of it.

Imitated: only what is limited (by the profile or by `settings`) is listed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.tpu import places, quota
from tpuops.localcloud.core.world import Document


def listing(call: Call) -> Answer:
    """GET v1/projects/P/locations/global/services/S/quotaInfos."""
    found = list(_infos(call)) if call.params["api"] == "tpu.googleapis.com" else []
    chosen, token = page(found, page_size(call.query.get("pageSize", ""), 100), call.query.get("pageToken", ""))
    reply: Document = {"quotaInfos": [info for _, info in chosen]} if chosen else {}
    return {**reply, "nextPageToken": token} if token else reply


def _infos(call: Call) -> Iterator[tuple[str, Document]]:
    grants: dict[str, dict[str, int]] = {}
    said = settings.of(call.world).get("quotas", {})
    for generation, spot in ((generation, spot) for generation in quota.METRICS for spot in (False, True)):
        if generation not in call.scene.profile.quotas and quota.metric(generation, spot) not in said:
            continue  # nothing limits it anywhere
        for zone in sorted(places.zones()):
            granted = quota.limit_of(call.scene, generation, spot, zone)
            if granted is not None:
                grants.setdefault(quota.metric(generation, spot), {})[zone] = granted
    for quota_id, limit in said.items():
        if quota_id.startswith("TPU") and quota_id not in grants:
            grants[quota_id] = dict(limit) if isinstance(limit, dict) else dict.fromkeys(sorted(places.zones()), limit)
    for quota_id, by_place in sorted(grants.items()):
        yield quota_id, _info(call, quota_id, by_place)


def _info(call: Call, quota_id: str, by_place: dict[str, int]) -> Document:
    dimension = "zone" if "PerZone" in quota_id else "region"
    parent = f"projects/{project_number(call.params['project'])}/locations/global/services/tpu.googleapis.com"
    return {
        "name": f"{parent}/quotaInfos/{quota_id}",
        "quotaId": quota_id,
        "service": "tpu.googleapis.com",
        "containerType": "PROJECT",
        "isPrecise": True,
        "dimensions": [dimension],
        "dimensionsInfos": [
            {"dimensions": {dimension: place}, "details": {"value": str(value)}, "applicableLocations": [place]}
            for place, value in sorted(by_place.items())
        ],
    }
