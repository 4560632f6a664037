"""What `--json` prints: JSON values made of the floors' own, with stable names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tpuops.lifecycle.down import Standing
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.up import Upped
from tpuops.plan import Change, Plan, Role
from tpuops.resources import Observed
from tpuops.stages.spend import hourly
from tpuops.stages.teardown import Torn


def plan(found: Plan, site: Site) -> dict[str, Any]:
    """A plan: every resource with its verb, reason and price, and what all of it costs while it stands."""
    rates = hourly(site.desired)
    known = [rate for rate in rates.values() if rate is not None]
    return {
        "environment": site.environment.name,
        "changes": [{**asdict(change), **_price(change, rates, site)} for change in found.changes],
        "usd_per_hour": sum(known) if len(known) == len(rates) else None,
    }


def _price(change: Change, rates: Mapping[str, float | None], site: Site) -> dict[str, Any]:
    """List price an hour, null where it is unknown or depends on use, and the same in words."""
    rate = rates.get(change.role)
    if change.role is Role.BUCKET:
        words = "by what it holds"
    elif change.role is Role.NODE and site.desired.node.granted:
        words = "free, granted"
    else:
        words = "unknown" if rate is None else f"{rate:.4f} USD/h"
    return {"usd_per_hour": rate, "price": words}


def upped(done: Upped, site: Site) -> dict[str, Any]:
    """`up`: what it did and what stands."""
    changed = [asdict(change) for change in done.plan.effects]
    return {"environment": site.environment.name, "changed": changed, "resources": resources(done.observed, site)}


def standing(found: Standing, site: Site) -> dict[str, Any]:
    """`status`: resources, lease and run."""
    lease = None
    if found.holder is not None:
        lease = {**asdict(found.holder), "words": found.holder.words(), "age_s": found.holder_age_s}
    return {
        "environment": site.environment.name,
        "resources": resources(found.observed, site),
        "lease": lease,
        "run": None if found.record is None else asdict(found.record),
    }


def resources(observed: Observed, site: Site) -> list[dict[str, Any]]:
    """One row a resource; an absent one is a row too."""
    desired, node, vm, bucket = site.desired, observed.node, observed.vm, observed.bucket
    rows = [
        _row("bucket", desired.bucket.name, "present" if bucket else "absent", bucket.location if bucket else ""),
        _row("node", desired.node.name, node.state if node else "absent", _node(observed)),
    ]
    if desired.vm is not None:
        rows.append(_row("vm", desired.vm.name, vm.state if vm else "absent", vm.machine_type if vm else ""))
    return rows


def _node(observed: Observed) -> str:
    node = observed.node
    if node is None:
        return ""
    addresses = ", ".join(worker.external_ip or worker.internal_ip for worker in node.workers)
    return f"{node.accelerator} {node.health} {addresses}".strip()


def _row(role: str, name: str, state: str, detail: str) -> dict[str, Any]:
    return {"role": role, "name": name, "state": state, "detail": detail}


def torn(done: Torn) -> dict[str, Any]:
    """`down`: removed, kept, remains."""
    return asdict(done)
