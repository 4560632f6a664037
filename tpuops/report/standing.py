"""Plans, status and teardowns as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.report.run import left, table

SIGNS = {"keep": " ", "create": "+", "start": "~", "wait": "~", "replace": "-/+"}


def plan(document: Mapping[str, Any]) -> str:
    """What would change, one line a resource."""
    rows = [
        (SIGNS[row["verb"]], row["verb"], row["role"], row["name"], row["price"], row["reason"])
        for row in document["changes"]
    ]
    words = table(("", "what", "role", "name", "price", "why"), rows)
    hourly = document.get("usd_per_hour")
    price = "unknown" if hourly is None else f"{hourly:.4f} USD"
    return f"{words}\nstanding, it costs about {price} an hour by list price"


def standing(document: Mapping[str, Any]) -> str:
    """What stands, who holds the lease, which run is on record."""
    rows = [(row["role"], row["name"], row["state"], row["detail"]) for row in document["resources"]]
    lines = [table(("role", "name", "state", ""), rows)]
    if document.get("lease"):
        lines.append(f"lease: {document['lease']['words']}, renewed {document['lease']['age_s']:.0f} s ago")
    if document.get("run"):
        run = document["run"]
        lines.append(f"run: {run['run_id']} is {run['state']}, attempt {run['attempt']}, step {run['best_step']}")
    return "\n".join(lines)


def torn(document: Mapping[str, Any]) -> str:
    """What a teardown removed, kept and left."""
    removed = document["removed"]
    lines = [f"removed: {', '.join(removed)}" if removed else "nothing to remove"]
    return "\n".join(lines + left("kept", document["kept"]) + left("remains", document["remains"]))
