"""What `--json` prints: JSON values made of the floors' own, with stable names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tpuops.environment import whereabouts
from tpuops.lifecycle.down import Standing
from tpuops.lifecycle.fetch import Fetched
from tpuops.lifecycle.lock import Lock
from tpuops.lifecycle.logs import Told
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.stop import Stopped
from tpuops.lifecycle.up import Upped
from tpuops.plan import Change, Plan, Role, Verb
from tpuops.resources import Observed
from tpuops.stages.record import ENDED, RunRecord
from tpuops.stages.spend import hourly
from tpuops.stages.teardown import Torn


def plan(found: Plan, site: Site) -> dict[str, Any]:
    """A plan: every resource with its verb, reason and price, and what all of it costs while it stands."""
    rates = hourly(site.desired)
    known = [rate for rate in rates.values() if rate is not None]
    return {
        "environment": site.environment.name,
        "changes": [{**_told(change, site), **_price(change, rates, site)} for change in found.changes],
        "usd_per_hour": sum(known) if len(known) == len(rates) else None,
    }


def _told(change: Change, site: Site) -> dict[str, Any]:
    """A change; what the file asks for comes with the line there."""
    where = f"{whereabouts(site.environment, change.field)}: " if change.field else ""
    return {"role": change.role, "verb": change.verb, "name": change.name, "reason": where + change.reason}


def _price(change: Change, rates: Mapping[str, float | None], site: Site) -> dict[str, Any]:
    """List price an hour, null where it is unknown or depends on use, and the same in words."""
    if change.verb is Verb.CHANGE:
        return {"usd_per_hour": 0.0, "price": "no cost"}
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
    return {
        "environment": site.environment.name,
        "changed": [_told(change, site) for change in done.plan.effects],
        "resources": resources(done.observed, site),
        **cost(done.observed, site),
    }


def cost(observed: Observed, site: Site) -> dict[str, float | None]:
    """What node and VM that stand cost an hour, and have cost since they were made; None where a price is unknown."""
    rates = _standing_rates(observed, site)
    known = [(rate, hours) for rate, hours in rates if rate is not None]
    if len(known) < len(rates):
        return {"usd_per_hour": None, "usd_so_far": None}
    return {
        "usd_per_hour": round(sum(rate for rate, _ in known), 6),
        "usd_so_far": round(sum(rate * hours for rate, hours in known), 6),
    }


def standing(found: Standing, site: Site) -> dict[str, Any]:
    """`status`: resources, lease, run with how far it is, and what all of it costs.

    `supervised` says whether the lease's holder may still act. `usd_so_far` counts node and VM since they were made.
    """
    lease = None
    if found.holder is not None:
        lease = {**asdict(found.holder), "words": found.holder.words(), "age_s": found.holder_age_s}
    return {
        "environment": site.environment.name,
        "resources": resources(found.observed, site),
        "lease": lease,
        "supervised": found.supervised,
        "run": None if found.record is None else _run(found, found.record),
        **cost(found.observed, site),
    }


def _run(found: Standing, record: RunRecord) -> dict[str, Any]:
    """The run on record; while somebody supervises it, how far it was at the lease's last renewal."""
    doing = found.holder.progress if found.holder is not None and found.supervised else {}
    if doing.get("run_id") != record.run_id:
        doing = {}
    report = record.outcome.get("report", {})
    past = report.get("run", {})
    return {
        **asdict(record),
        "attempt": doing.get("attempt", record.attempt),
        "step": doing.get("step", record.best_step),
        "best_step": doing.get("best_step", record.best_step),
        "goodput": doing.get("goodput", past.get("goodput")),
        "ended_as": report.get("outcome"),
        **({} if found.ended is None else {"state": ENDED, "ended_as": found.ended.end[0]}),
    }


def _standing_rates(observed: Observed, site: Site) -> list[tuple[float | None, float]]:
    """For node and VM that stand: USD an hour, and the hours since it was made."""
    rates, now = hourly(site.desired), site.clock.now()
    stands = [(role, thing) for role, thing in (("node", observed.node), ("vm", observed.vm)) if thing is not None]
    return [
        (rates.get(role), max(0.0, (now - thing.created).total_seconds() / 3600) if thing.created else 0.0)
        for role, thing in stands
        if thing.state not in {"STOPPED", "TERMINATED", "PREEMPTED"}
    ]


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


def lock(found: Lock, site: Site) -> dict[str, Any]:
    """`lock.show` and `lock.break`: the holder as it was found, null where there is none."""
    holder = found.holder
    return {
        "environment": site.environment.name,
        "lease": None if holder is None else {**asdict(holder), "words": holder.words(), "age_s": found.age_s},
        "generation": found.generation,
        "supervised": found.acts,
        "broken": found.broken,
        "waited_s": found.waited_s,
    }


def told(done: Told) -> dict[str, Any]:
    """`logs`: which log it was, and how its attempt ended if it has."""
    return {
        "run_id": done.run_id,
        "attempt": done.attempt,
        "source": done.source,
        "alive": done.alive,
        "exit_code": None if done.end is None else done.end.code,
    }


def stopped(done: Stopped) -> dict[str, Any]:
    """`stop`: the run's own report as far as it goes, and what stands; `run_id` is empty where no run was open."""
    report = done.report or {}
    run = report.get("run") or report
    return {
        "run_id": done.run_id,
        "outcome": report.get("outcome", "stopped" if done.run_id else "nothing"),
        "attempts": run.get("attempts", 0),
        "best_step": run.get("best_step", -1),
        "saved": list(report.get("saved", ())),
        "supervised": done.supervised,
        "kept": [asdict(left) for left in done.kept],
        "remains": [asdict(left) for left in done.remains],
    }


def fetched(done: Fetched) -> dict[str, Any]:
    """`fetch`: names below the folder; `refused` says of each that did not come why."""
    return {
        "run_id": done.run_id,
        "folder": str(done.folder),
        "brought": list(done.brought),
        "equal": list(done.equal),
        "refused": done.refused,
        "bytes": done.size,
        "open": done.open_run,
    }
