"""What a Compute zone has: machine types, images and names of resources that always exist. Data only.

Machine types are the general-purpose families that a machine beside a TPU would use; vCPUs and memory follow the
family's published ratios. Image families are the public Debian and Ubuntu ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tpuops.facts import catalogue

MIB = 1024
FIXED: Mapping[str, tuple[int, int]] = {
    # vCPUs and MiB of the types that follow no ratio (e2 shared-core, f1, g1).
    "e2-micro": (2, 1 * MIB),
    "e2-small": (2, 2 * MIB),
    "e2-medium": (2, 4 * MIB),
    "f1-micro": (1, 614),
    "g1-small": (1, 1740),
}
FAMILIES: Mapping[str, tuple[tuple[int, ...], float]] = {
    # Sizes in vCPUs and GiB a vCPU.
    "e2-standard": ((2, 4, 8, 16, 32), 4.0),
    "e2-highmem": ((2, 4, 8, 16), 8.0),
    "e2-highcpu": ((2, 4, 8, 16, 32), 1.0),
    "n1-standard": ((1, 2, 4, 8, 16, 32, 64, 96), 3.75),
    "n1-highmem": ((2, 4, 8, 16, 32, 64, 96), 6.5),
    "n2-standard": ((2, 4, 8, 16, 32, 48, 64, 80, 96, 128), 4.0),
    "n2-highmem": ((2, 4, 8, 16, 32, 48, 64, 80, 96, 128), 8.0),
    "n2d-standard": ((2, 4, 8, 16, 32, 48, 64, 80, 96), 4.0),
    "c3-standard": ((4, 8, 22, 44, 88, 176), 4.0),
}
IMAGES: Mapping[tuple[str, str], str] = {
    # (project, family): an image's name; the dates in them are of this table, not promises.
    ("debian-cloud", "debian-11"): "debian-11-bullseye-v20251014",
    ("debian-cloud", "debian-12"): "debian-12-bookworm-v20251014",
    ("debian-cloud", "debian-13"): "debian-13-trixie-v20251014",
    ("ubuntu-os-cloud", "ubuntu-2204-lts"): "ubuntu-2204-jammy-v20251014",
    ("ubuntu-os-cloud", "ubuntu-2404-lts-amd64"): "ubuntu-2404-noble-amd64-v20251014",
}
DEFAULT_IMAGE = ("debian-cloud", "debian-12")
DISK_TYPES = ("pd-standard", "pd-balanced", "pd-ssd")


@lru_cache(maxsize=1)
def zones() -> tuple[str, ...]:
    """The zones of Compute: those with TPUs, and their regions' a, b, c and f, without AI zones' special names."""
    plain = {f"{region}-{letter}" for region in regions() for letter in "abcf"}
    return tuple(sorted({*catalogue.zones(), *plain}))


@lru_cache(maxsize=1)
def regions() -> tuple[str, ...]:
    """The regions of those zones."""
    return tuple(sorted({catalogue.region_of(zone) for zone in catalogue.zones()}))


@lru_cache(maxsize=1)
def machine_types() -> Mapping[str, tuple[int, int]]:
    """vCPUs and MiB of memory by type."""
    types = dict(FIXED)
    for family, (sizes, ratio) in FAMILIES.items():
        types.update({f"{family}-{size}": (size, int(size * ratio * MIB)) for size in sizes})
    return types
