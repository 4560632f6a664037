"""What preflight found, as people read it: one line where all is well, else a table with a fix for each fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuops.report.run import table

WORDS = {"ok": "ok", "repair": "repairs", "note": "note", "bad": "FAULT"}


def said(rows: Sequence[Mapping[str, Any]], *, whole: bool = False) -> str:
    """The verdict in a line, and below it what is not simply well, or with `whole` everything."""
    shown = [row for row in rows if whole or row["state"] != "ok"]
    return "\n".join([verdict(rows), *([found(shown)] if shown else [])])


def verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """Who is ready and who is not."""
    workers = {row["worker"] for row in rows}
    wrong = {row["worker"] for row in rows if row["state"] == "bad"}
    if wrong:
        faults = sum(row["state"] == "bad" for row in rows)
        return f"preflight: {len(wrong)} of {_count(len(workers))} not ready, {faults} fault{'s' if faults > 1 else ''}"
    repairs = sum(row["state"] == "repair" for row in rows)
    return f"preflight: {_count(len(workers))} ready" + (f", after {repairs} repair(s)" if repairs else "")


def found(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row each; equal ones of several workers are one."""
    merged: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        key = (row["check"], WORDS[row["state"]], row["what"], row["fix"])
        merged.setdefault(key, []).append(row["worker"])
    lines = [(_span(workers), check, state, _both(what, fix)) for (check, state, what, fix), workers in merged.items()]
    return table(("worker", "looked at", "", "found, and what mends it"), lines)


def _both(what: str, fix: str) -> str:
    return f"{what}\n-> {fix}" if fix else what


def _count(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"


def _span(workers: Sequence[int]) -> str:
    """`0-3` for many in a row."""
    first, last = workers[0], workers[-1]
    if len(workers) > 2 and list(workers) == list(range(first, last + 1)):
        return f"{first}-{last}"
    return ", ".join(map(str, workers))
