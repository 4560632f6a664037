"""How long things take and how strict the cloud is: plain numbers, chosen at start.

`instant` is the default: no operation takes over two seconds. All durations are seconds and scale by one number. One
that is given as a range is drawn anew for each operation, from the profile's seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Profile:
    """Latencies and options.

    Attributes:
        latencies: seconds an operation takes, by method; a pair is the range they are drawn from.
        scale: factor on all of them.
        lifecycle_s: seconds between two looks at the objects of a bucket with lifecycle rules; Google's come within a
            day (google-cloud.md 4.8).
        key_delay_s: how long a login key that is written to metadata takes to come into force on a machine that runs
            (clients wait up to a minute, google-cloud.md 6.8).
        object_writes_per_s: writes a second to one object's name before 429; 0 = no limit (google-cloud.md 4.2).
        quotas: cores (v2 to v5p) or chips (others) a zone grants, by generation; a generation not named is unlimited.
        suspension_deletes_nodes: whether the nodes a queued resource has left go when it is suspended; unverified.
        chance: what ranges are drawn with.
    """

    latencies: Mapping[str, float | tuple[float, float]]
    scale: float = 1.0
    lifecycle_s: float = 60.0
    key_delay_s: float = 0.0
    object_writes_per_s: float = 0.0
    quotas: Mapping[str, int] = field(default_factory=dict)
    suspension_deletes_nodes: bool = False
    chance: random.Random = field(default_factory=lambda: random.Random(0), compare=False)  # noqa: S311 (no secret)

    def latency(self, method: str) -> float:
        """Seconds the operation of this method takes."""
        stated = self.latencies.get(method, 0.1)
        return (self.chance.uniform(*stated) if isinstance(stated, tuple) else stated) * self.scale


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
    lifecycle_s=86_400.0,
    key_delay_s=10.0,
    object_writes_per_s=1.0,
)

PROFILES: Mapping[str, Profile] = {"instant": INSTANT, "realistic": REALISTIC}


def profile_of(document: Any) -> Profile:
    """The profile a file describes: {base: instant, scale: 0.1, seed: 4, latencies: {tpu.nodes.create: [60, 300]}}.

    What it leaves out is as in `base` (default: realistic). Raises ValueError.
    """
    stated = dict(document) if isinstance(document, Mapping) else {}
    base, seed = stated.pop("base", "realistic"), stated.pop("seed", 0)
    known = {each.name for each in fields(Profile)} - {"chance"}
    if not isinstance(document, Mapping) or base not in PROFILES or not isinstance(seed, int):
        raise ValueError(f"a profile is an object; `base` is one of {sorted(PROFILES)}, `seed` a whole number")
    if set(stated) - known:
        raise ValueError(
            f"a profile knows no {sorted(set(stated) - known)}; it knows base, seed, {', '.join(sorted(known))}"
        )
    latencies = {name: _seconds(name, value) for name, value in dict(stated.pop("latencies", {})).items()}
    chance = random.Random(seed)  # noqa: S311 (no secret)
    whole = replace(PROFILES[base], latencies={**PROFILES[base].latencies, **latencies}, chance=chance)
    return replace(whole, **{name: _like(name, getattr(whole, name), value) for name, value in stated.items()})


def _seconds(name: str, value: Any) -> float | tuple[float, float]:
    given = value if isinstance(value, list) else [value, value]
    if len(given) != 2 or not all(isinstance(one, int | float) and one >= 0 for one in given) or given[0] > given[1]:
        raise ValueError(f"latencies.{name}: seconds, or [least, most]")
    return (float(given[0]), float(given[1])) if isinstance(value, list) else float(value)


def _like(name: str, usual: Any, value: Any) -> Any:
    kinds = bool if isinstance(usual, bool) else Mapping if isinstance(usual, Mapping) else int | float
    if not isinstance(value, kinds) or (isinstance(value, bool) and not isinstance(usual, bool)):
        raise ValueError(f"{name}: {value!r} makes no sense there")
    return value
