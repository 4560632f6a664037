"""Plans, status and teardowns as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuops.report.run import left, source, table

KEPT = "kept by"
SIGNS = {"keep": " ", "create": "+", "change": "~", "start": "~", "wait": "~", "replace": "-/+", "delete": "-"}


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
    """What stands, what the run is doing, who supervises it, and what it costs."""
    rows = [(row["role"], row["name"], row["state"], row["detail"]) for row in document["resources"]]
    lines = [table(("role", "name", "state", ""), rows)]
    if document.get("run"):
        lines += run(document["run"])
    lease = document.get("lease")
    if lease:
        far = "; the run's log tells how far it is" if held(document) == KEPT else ""
        lines.append(f"lease: {held(document)} {lease['words']}, renewed {lease['age_s']:.0f} s ago{far}")
    elif document.get("run") and document["run"]["state"] == "running":
        lines.append("lease: nobody holds it, so nobody supervises the run")
    if document.get("usd_per_hour") != 0:
        lines.append(f"cost: {price(document)}")
    return "\n".join(lines)


def held(document: Mapping[str, Any]) -> str:
    """How a lease is held: by whoever may act, by a machine for its run, or by nobody any more."""
    lease = document["lease"]
    if document["supervised"]:
        return "held by"
    return KEPT if lease["keeper"] and not lease["token"] and lease["age_s"] <= lease["ttl_s"] else "left over from"


def run(run: Mapping[str, Any]) -> list[str]:
    """The run on record, and each recovery so far in a line."""
    state = {"running": "open", "ended": "ended, not closed yet", "closed": "closed"}.get(run["state"], run["state"])
    words = [state if not run["ended_as"] else f"{state} ({run['ended_as']})", f"attempt {run['attempt']}"]
    if run["step"] >= 0:
        words.append(f"step {run['step']}")
    elif run["state"] == "running":
        words.append("no step told yet")
    if run["goodput"] is not None and run["step"] >= 0:
        words.append(f"goodput {run['goodput']:.0%}")
    words.append(f"{len(run['recoveries'])} recoveries" if len(run["recoveries"]) != 1 else "1 recovery")
    by = f", begun by {run['by']}" if run["by"] else ""
    lines = [f"run: {run['run_id']} is {', '.join(words)}{by}"]
    lines.append(f"source: {source(run['commit'], run['changed'], run['source'])}")
    return lines + [
        f"  at step {row['step']}: {row['class']}, answered by {row['action']}" for row in run["recoveries"]
    ]


def price(document: Mapping[str, Any]) -> str:
    """What stands costs this much an hour and cost that much since it was made, by list price."""
    if document["usd_per_hour"] is None:
        return "unknown (a price is not in the tables)"
    return (
        f"about {document['usd_per_hour']:.4f} USD an hour while it stands, about {document['usd_so_far']:.4f} USD so"
        " far, by list price"
    )


def every(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line an environment; what could not be looked at, and what nobody set up yet, is said below the table."""
    seen = [_brief(row) for row in rows if not {"error", "not_set_up"} & set(row)]
    lines = [table(("environment", "tpu", "vm", "run", "step", "supervised by", "USD/h"), seen)] if seen else []
    lines += [f"{row['environment']}: {row['error']['message']}" for row in rows if "error" in row]
    if fresh := [row["environment"] for row in rows if "not_set_up" in row]:
        lines.append(f"not looked at, as their project is still the shipped one: {', '.join(fresh)}")
    return "\n".join(lines) or "there is no environment here"


def _brief(document: Mapping[str, Any]) -> tuple[str, ...]:
    states = {row["role"]: row["state"] for row in document["resources"]}
    run, lease, hourly = document["run"], document["lease"], document["usd_per_hour"]
    return (
        document["environment"],
        states["node"],
        states.get("vm", "none"),
        "-" if run is None else f"{run['run_id']} {run['ended_as'] or run['state']}",
        "-" if run is None or run["step"] < 0 else str(run["step"]),
        f"{lease['user']} on {lease['host']}" if lease and document["supervised"] else "-",
        "?" if hourly is None else f"{hourly:.4f}",
    )


def others(rows: Sequence[Mapping[str, Any]], unseen: Sequence[str]) -> list[str]:
    """TPUs of other people in the same projects, with what they run; nothing where there are none."""
    seen = [
        (
            row["name"],
            row["owner"],
            row["state"],
            row["unknown"] or (f"{row['run']} {row['run_state']}" if row["run"] else "-"),
            "-" if row["step"] < 0 else str(row["step"]),
            row["begun_by"] or "-",
            row["supervised_by"] or "-",
        )
        for row in rows
    ]
    head = ("others' tpu", "owner", "state", "run", "step", "begun by", "supervised by")
    return [*([table(head, seen)] if seen else []), *(f"others are not known: {why}" for why in unseen)]


def brief(document: Mapping[str, Any]) -> str:
    """The same in one line, for a watch that is not on a terminal."""
    if "error" in document or "not_set_up" in document:
        why = document["not_set_up"] if "not_set_up" in document else document["error"]["message"]
        return f"{document['environment']}: {why}"
    parts = [f"{row['role']} {row['state']}" for row in document["resources"]]
    if document["run"]:
        parts += [line.strip() for line in run(document["run"])[:1]]
    parts.append("supervised" if document["supervised"] else "not supervised")
    return f"{document['environment']}: {'; '.join(parts)}"


def torn(document: Mapping[str, Any]) -> str:
    """What a teardown removed, kept and left."""
    nothing = "nothing was removed" if document["remains"] else "nothing to remove"
    lines = [f"removed: {', '.join(document['removed'])}" if document["removed"] else nothing]
    return "\n".join(lines + left("kept", document["kept"]) + left("remains", document["remains"]))
