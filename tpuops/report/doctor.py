"""What `doctor` says: one line a check, then what is wrong with its evidence and the next command. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuops.report.run import table

MARKS = {"ok": "ok", "warning": "note", "broken": "BROKEN", "skipped": "-", "hung": "HUNG"}


def examined(document: Mapping[str, Any]) -> str:
    """The table, and a paragraph for each check that is not well."""
    rows = [(MARKS[row["state"]], row["check"], row["what"], f"{row['seconds']:.1f} s") for row in document["findings"]]
    lines = [table(("", "check", "what was found", "took"), rows)]
    for row in document["findings"]:
        if row["state"] in {"broken", "hung", "warning"}:
            lines += ["", *_paragraph(row)]
    lines += _done(document["fixes"])
    return "\n".join([*lines, "", verdict(document)])


def _paragraph(row: Mapping[str, Any]) -> list[str]:
    kind = f" [{row['class']}]" if row["class"] else ""
    lines = [f"{row['check']}: {row['what']}{kind}", *(f"  {line}" for line in row["evidence"])]
    if row["hint"]:
        lines.append(f"  hint: {row['hint']}")
    if row["fix"]:
        by_hand = f" (by hand: {row['fix']['command']})" if row["fix"]["command"] else ""
        lines.append(f"  fix: {row['fix']['what']}{by_hand}")
    return lines


def _done(fixes: Sequence[Mapping[str, Any]]) -> list[str]:
    return ["", *(f"fix of {row['check']}: {row['what']}: {row['result']}" for row in fixes)] if fixes else []


def verdict(document: Mapping[str, Any]) -> str:
    """The last line: how many checks, and whether a run would get past them."""
    states = [row["state"] for row in document["findings"]]
    stopping = sum(state in {"broken", "hung"} for state in states)
    notes = states.count("warning")
    words = f"{len(states)} checks in {document['seconds']:.1f} s: "
    words += "everything a run needs is there" if not stopping else f"{stopping} would stop a run"
    return words + (f", {notes} to know of" if notes else "")


def steps(document: Mapping[str, Any], typed: Any, *, fixed: bool) -> list[tuple[str, str]]:
    """What to type next."""
    if document["healthy"]:
        return [(typed("up"), "provisions what the file asks for")]
    if not fixed and any(row["fix"] for row in document["findings"]):
        return [(typed("doctor", "--fix"), "mends what a program may mend, asking for each step")]
    return [(typed("doctor"), "looks again, when the hints above are followed")]
