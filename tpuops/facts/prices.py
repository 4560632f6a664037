"""List prices per hour with their source and date; `None` where no source gave one, never zero.

Sources: data/prices.json and the price rows of data/accelerators.json (google-cloud.md 1.7): list prices before any
discount, for estimates shown with source and date, never for a bill. Spot prices are an indication only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuops.facts.catalogue import Accelerator, accelerator
from tpuops.facts.tables import table

HOURS_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class Price:
    """`usd_per_hour` for one unit of the thing asked for; `note` says what weakens the figure, empty where nothing."""

    usd_per_hour: float
    source: str
    date: str
    note: str = ""


def tpu(type_name: str, region: str, *, spot: bool = False) -> Price | None:
    """One slice of a type for an hour: the per-chip price times its chips, else the last known device price."""
    known = accelerator(type_name)
    if known is None:
        return None
    return _per_chip(known, region, spot=spot) or _per_device(known, region, spot=spot)


def vm(machine_type: str, region: str, *, spot: bool = False) -> Price | None:
    """One Compute Engine machine without disk and address."""
    row = table("prices")["vm"].get(region, {}).get(machine_type, {})
    return _sourced(row.get("spot" if spot else "on_demand"), row.get("source"), note="spot varies" if spot else "")


def disk(kind: str, region: str, gib: int) -> Price | None:
    """A persistent disk of `gib` GiB (`pd-standard`, `pd-balanced`, `pd-ssd`)."""
    row = table("prices")["disk"].get(region, {}).get(kind, {})
    per_month = row.get("usd_per_gib_month")
    return _sourced(None if per_month is None else per_month * gib / HOURS_A_MONTH, row.get("source"))


def vm_address(*, spot: bool = False) -> Price | None:
    """One external address in use on a VM."""
    row = table("prices")["ip"]["in_use_on_spot_vm" if spot else "in_use_on_standard_vm"]
    return _sourced(row["usd_per_hour"], row["source"])


def tpu_address() -> Price | None:
    """One external address of a TPU worker; no source gives it, hence unknown."""
    row = table("prices")["ip"]["on_tpu_vm"]
    return _sourced(row["usd_per_hour"], row["source"])


def storage_gib_month(region: str) -> float | None:
    """USD for one GiB of standard regional storage for a month."""
    value = table("prices")["storage"]["regional"].get(region, {}).get("standard")
    return None if value is None else float(value)


def _per_chip(known: Accelerator, region: str, *, spot: bool) -> Price | None:
    prices = table("accelerators")["generations"][known.generation]["prices"]
    row = _row(prices["by_zone_or_region"], known, region)
    value = row.get("spot" if spot else "on_demand")
    if value is None:
        return None
    date = _date_in(prices["source"]) or str(table("accelerators")["generated"])
    return Price(value * known.chips, prices["source"], date, note="spot varies" if spot else "")


def _row(rows: Mapping[str, Any], known: Accelerator, region: str) -> Mapping[str, Any]:
    """v2 and v3 have two list prices: the single device's and the pod's (google-cloud.md 1.7)."""
    kind = f"{region} ({known.type} device)" if known.single_host else f"{region} (pod)"
    row: Mapping[str, Any] = rows.get(kind) or rows.get(region) or {}
    return row


def _per_device(known: Accelerator, region: str, *, spot: bool) -> Price | None:
    row = table("prices")["tpu_historic"].get(known.type, {}).get(region, {})
    value = row.get("preemptible" if spot else "on_demand")
    return _sourced(value, row.get("source"), note="historic; no current list price found")


def _sourced(value: float | None, source: str | None, note: str = "") -> Price | None:
    if value is None or source is None:
        return None
    entry = table("prices")["sources"][source]
    return Price(float(value), entry["url_or_repo_path"], entry["date"] or "undated", note)


def _date_in(source: str) -> str:
    """The date inside a source line such as `... @b707e74 (2024-12-23, hand-copied ...)`."""
    inside = source.partition("(")[2][:10]
    return inside if inside[:2] == "20" else ""
