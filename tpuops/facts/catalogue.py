"""TPU types, where they are offered and which software they take.

Source: data/accelerators.json (Google's documentation and third-party catalogues, each entry with its source; as of the
date in `as_of`). The tables serve checks and estimates *before* creation: the worker count of a living node is what the
API shows, never what stands here. Unknown types give `None` and unknown zones an empty answer, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tpuops.facts.tables import table

DUAL_REGIONS = {
    "nam4": ("us-central1", "us-east1"),
    "eur4": ("europe-north1", "europe-west4"),
    "asia1": ("asia-northeast1", "asia-northeast2"),
}
"""The named dual-regions of Cloud Storage."""

_RANGE = re.compile(r"^(?P<prefix>.+)-(?P<low>\d+)(?:\.\.(?P<high>\d+))?$")
_AI_ZONE = re.compile(r"ai\d+[a-z]")
_OLD_RUNTIMES = ("tpu-vm-base", "tpu-vm-v4-base", "v2-alpha")
_TENSORFLOW = re.compile(r"^tpu-vm-tf-(?P<version>\d+\.\d+\.\d+|v5p-alpha-sc)(?P<pod>-pod)?(?:-(?:pjrt|se))?$")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator type of the TPU API; `stop_start` also needs a node that is neither spot nor queued."""

    type: str
    generation: str
    topology: str
    chips: int
    cores: int
    workers: int
    chips_per_worker: int
    devices: int
    stop_start: bool
    device_nodes: str
    config_type: str

    @property
    def single_host(self) -> bool:
        """Whether one machine holds the whole slice."""
        return self.workers == 1


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Software versions of a generation: `default` for JAX and PyTorch; `named` are other exact names that work."""

    default: str
    named: tuple[str, ...] = ()

    def takes(self, runtime: str) -> bool:
        """Whether a TPU of this generation runs `runtime`; TensorFlow images are taken by their pattern."""
        return runtime == self.default or runtime in self.named or is_tensorflow(runtime)


def as_of() -> str:
    """The date of the tables."""
    return str(table("accelerators")["generated"])


def region_of(zone: str) -> str:
    """The zone's region; AI zones such as us-south1-ai1b lie in us-south1 (google-cloud.md 3.1.6)."""
    return zone.rsplit("-", 1)[0]


def parent_zone(zone: str) -> str:
    """Where ordinary machines stand beside a TPU: an AI zone's last letter names its parent zone, others are their own.

    Inferred from the names alone (us-south1-ai1b lies beside us-south1-b): the live check of the machine type decides.
    """
    region, _, place = zone.rpartition("-")
    return f"{region}-{place[-1]}" if _AI_ZONE.fullmatch(place) else zone


def location_holds(location: str, region: str, regions: Collection[str] = ()) -> bool:
    """Whether a bucket in `location` (lower case) has its data in `region`; `regions` are a custom dual-region's own.

    Source: google-cloud.md 4.9. The EU multi-region leaves London and Zurich out.
    """
    if region == location or region in regions or region in DUAL_REGIONS.get(location, ()):
        return True
    if location == "eu":
        return region.startswith("europe-") and region not in {"europe-west2", "europe-west6"}
    return location in {"us", "asia"} and region.startswith(f"{location}-")


def is_tensorflow(runtime: str) -> bool:
    """Whether a runtime version is a TensorFlow image."""
    return _TENSORFLOW.match(runtime) is not None


def is_pod_runtime(runtime: str) -> bool | None:
    """Whether a TensorFlow image is the multi-host one; None where the name does not say."""
    found = _TENSORFLOW.match(runtime)
    if not found or found["version"] == "v5p-alpha-sc":
        return None
    return found["pod"] is not None


def accelerator(type_name: str) -> Accelerator | None:
    """The type of that exact name (`v3-8`, `v5litepod-16`), or None."""
    return _accelerators().get(type_name)


def accelerator_types() -> tuple[str, ...]:
    """Every type of the TPU API, by generation and size."""
    return tuple(_accelerators())


def generations() -> tuple[str, ...]:
    """Every generation of the TPU API, by age: v2 ... v6e."""
    return tuple(dict.fromkeys(entry.generation for entry in _accelerators().values()))


def spelled_otherwise(type_name: str) -> str:
    """The API's name for a type written with an alias (`v5e-8` for v5litepod-8), or an empty string."""
    family, _, size = type_name.lower().rpartition("-")
    for generation in table("accelerators")["generations"].values():
        if family in generation.get("aliases", ()):
            name = f"{generation['type_prefix']}-{size}"
            return name if accelerator(name) else ""
    return type_name.lower() if type_name != type_name.lower() and accelerator(type_name.lower()) else ""


@lru_cache(maxsize=256)
def offered(zone: str) -> tuple[str, ...]:
    """The types documented or listed in a zone; empty where the tables know nothing of it."""
    return tuple(name for name in _accelerators() if zone in zones_of(name))


def zones() -> tuple[str, ...]:
    """Every zone with at least one TPU type."""
    return tuple(sorted({zone for name in _accelerators() for zone in zones_of(name)}))


@lru_cache(maxsize=256)
def zones_of(type_name: str) -> tuple[str, ...]:
    """The zones of a type: documented ones first, then those that third-party catalogues list."""
    known = accelerator(type_name)
    if known is None:
        return ()
    places = table("accelerators")["generations"][known.generation]["zones"]
    documented = places["documented"]
    if isinstance(documented, dict):
        documented = [zone for span, listed in documented.items() if _within(type_name, span) for zone in listed]
    return tuple(dict.fromkeys([*documented, *places.get("listed_elsewhere", ())]))


def runtimes(generation: str) -> Runtimes:
    """The software versions a generation runs. Source: docs/runtimes page, google-cloud.md 1.8."""
    defaults = table("accelerators")["runtime_versions"]["pytorch_jax"]
    if generation in defaults:
        return Runtimes(default=defaults[generation])
    return Runtimes(default=defaults["v4 and older"], named=_OLD_RUNTIMES)


def default_runtime(type_name: str) -> str:
    """The runtime version for JAX and PyTorch on a type; empty for an unknown type."""
    known = accelerator(type_name)
    return runtimes(known.generation).default if known else ""


def tensorflow_runtime(type_name: str) -> tuple[str, str]:
    """The TensorFlow runtime for a type, and a doubt about it that its source has (empty: none); empty if unknown.

    The table says `a (multi-host: b)`, `... UNVERIFIED`, or a family of images, whose newest member v2 names.
    """
    known = accelerator(type_name)
    if known is None:
        return "", ""
    generations = table("accelerators")["generations"]
    said = str(generations[known.generation]["default_runtime"]["tensorflow"])
    image = said.split(maxsplit=1)[0]
    if image.startswith("tpu-vm-tf"):
        one, _, several = str(generations["v2"]["default_runtime"]["tensorflow"]).partition(" (multi-host: ")
        image = one if known.single_host else several.rstrip(")")
    doubt = f"nobody has confirmed TensorFlow on {type_name} with {image}: {said}" if "UNVERIFIED" in said else ""
    return image, doubt


@lru_cache(maxsize=1)
def _accelerators() -> dict[str, Accelerator]:
    generations = table("accelerators")["generations"]
    return {entry.type: entry for name, generation in generations.items() for entry in _of(name, generation)}


def _of(name: str, generation: dict[str, Any]) -> Iterator[Accelerator]:
    """The types of one generation; TPU7x has none, since the TPU API does not serve it (google-cloud.md 0.1)."""
    if generation["api"] != "tpu":
        return
    for row in generation["types"]:
        yield Accelerator(
            type=row["type"],
            generation=name,
            topology=row["topology"],
            chips=row["chips"],
            cores=row["tensor_cores"],
            workers=row["workers"],
            chips_per_worker=row["chips_per_worker"],
            devices=row["chips"] * generation["jax_devices_per_chip"],
            stop_start=row["stop_start_supported"],
            device_nodes=generation["device_nodes"],
            config_type=generation["accelerator_config_type"],
        )


def _within(type_name: str, span: str) -> bool:
    """Whether `v3-64` lies in `v3-32..2048`."""
    found = _RANGE.match(span)
    family, _, size = type_name.rpartition("-")
    if not found or found["prefix"] != family:
        return False
    return int(found["low"]) <= int(size) <= int(found["high"] or found["low"])
