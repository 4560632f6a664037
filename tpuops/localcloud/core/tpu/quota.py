"""Quota, apart from capacity: refused at admission, by number of cores or chips in a zone.

Only where the profile or a test sets one. Nodes count until they are gone, preempted ones too, and queued
resources until they are deleted, in every state (facts: google-cloud.md 2.2, 2.5).
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuops.facts import catalogue
from tpuops.facts.catalogue import Accelerator
from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call, Scene
from tpuops.localcloud.core.tpu import shape
from tpuops.localcloud.core.world import Document

METRICS = {
    "v2": "TPUV2s{spot}PodPerProjectPerZoneForTPUAPI",
    "v3": "TPUV3s{spot}PodPerProjectPerZoneForTPUAPI",
    "v4": "TPUV4s{spot}PodPerProjectPerZoneForTPUAPI",
    "v5e": "TPUV5s{spot}LitepodPerProjectPerZoneForTPUAPI",
    "v5p": "TPUV5P{spot}PerProjectPerZoneForTPUAPI",
    "v6e": "TPUV6E{spot}PerProjectPerZoneForTPUAPI",
}
"""Metric names as seen for v2, v4, v5e, v5p and v6e; that of v3 is formed alike (google-cloud.md 2.5)."""


def metric(generation: str, spot: bool) -> str:
    """The quota's id."""
    return METRICS[generation].format(spot="Preemptible" if spot else "")


def limit_of(scene: Scene, generation: str, spot: bool, zone: str) -> int | None:
    """What a zone grants; None where nothing limits it."""
    said = settings.limit(scene.world, metric(generation, spot), zone)
    return scene.profile.quotas.get(generation) if said is None else said


def units(accelerator: Accelerator) -> int:
    """What one slice takes: cores up to v5p, chips for v5e and v6e."""
    return accelerator.chips if accelerator.generation in {"v5e", "v6e"} else accelerator.cores


def check(call: Call, accelerator: Accelerator, spot: bool, slices: int = 1) -> None:
    """Raise the recorded quota refusal where the zone's quota of this generation would be exceeded."""
    project, zone = call.params["project"], call.params["zone"]
    limit = limit_of(call.scene, accelerator.generation, spot, zone)
    if limit is None:
        return
    used = 0
    for shown in _holders(call, f"projects/{project}/locations/{zone}/"):
        other = catalogue.accelerator(shown["acceleratorType"])
        if other and other.generation == accelerator.generation and shape.is_spot(shown) == spot:
            used += units(other)
    if used + units(accelerator) * slices <= limit:
        return
    quota_id = metric(accelerator.generation, spot)
    violation = {
        "subject": f"project:{project_number(project)}",
        "description": f"Quota '{quota_id}' exhausted. Limit {limit} in zone {zone}",
    }
    detail = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
    raise refuse("tpu.quota", (detail,), metric=quota_id, limit=limit, zone=zone)


def _holders(call: Call, parent: str) -> Iterator[Document]:
    """What holds quota: nodes of their own, and everything a queued resource stands for, whether it is there or not."""
    for _, node in call.world.items("tpu.node", f"{parent}nodes/"):
        if not node["shown"].get("queuedResource"):
            yield node["shown"]
    for _, queue in call.world.items("tpu.queue", f"{parent}queuedResources/"):
        yield from queue["plan"]
