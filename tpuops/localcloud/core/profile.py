"""How long things take and how strict the cloud is: plain numbers, chosen at start.

`instant` is the default: no operation takes over two seconds. All durations are seconds and scale by one number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Profile:
    """Latencies and options.

    Attributes:
        latencies: seconds an operation takes, by method.
        scale: factor on all of them.
        object_writes_per_s: writes a second to one object's name before 429; 0 = no limit (google-cloud.md 4.2).
        quotas: cores (v2 to v5p) or chips (others) a zone grants, by generation; a generation not named is unlimited.
        suspension_deletes_nodes: whether the nodes a queued resource has left go when it is suspended; unverified.
    """

    latencies: Mapping[str, float]
    scale: float = 1.0
    object_writes_per_s: float = 0.0
    quotas: Mapping[str, int] = field(default_factory=dict)
    suspension_deletes_nodes: bool = False

    def latency(self, method: str) -> float:
        """Seconds the operation of this method takes."""
        return self.latencies.get(method, 0.1) * self.scale


INSTANT = Profile(
    latencies={
        "tpu.nodes.create": 0.6,
        "tpu.nodes.start": 0.5,
        "tpu.nodes.stop": 0.3,
        "tpu.nodes.delete": 0.3,
        "tpu.nodes.patch": 0.1,
        "compute.instances.insert": 0.4,
        "compute.instances.start": 0.4,
        "compute.instances.stop": 0.3,
        "compute.instances.delete": 0.3,
    }
)

REALISTIC = Profile(
    # Facts: google-cloud.md 2.9 (wide spreads; the middle of what was observed).
    latencies={
        "tpu.nodes.create": 120.0,
        "tpu.nodes.start": 90.0,
        "tpu.nodes.stop": 75.0,
        "tpu.nodes.delete": 90.0,
        "tpu.nodes.patch": 5.0,
        "tpu.queuedResources.create": 3.0,
        "tpu.queuedResources.accepted": 20.0,
        "tpu.queuedResources.waiting": 60.0,
        "tpu.queuedResources.suspend": 30.0,
        "tpu.queuedResources.delete": 90.0,
        "compute.instances.insert": 12.0,
        "compute.instances.start": 10.0,
        "compute.instances.stop": 30.0,
        "compute.instances.delete": 25.0,
    },
    object_writes_per_s=1.0,
)

PROFILES: Mapping[str, Profile] = {"instant": INSTANT, "realistic": REALISTIC}
