"""The end of a run as people read it: the outcome, a table of failures and what was done, cost, what stays."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 110
"""Columns of a table where nobody's terminal is narrower."""


def ending(document: Mapping[str, Any]) -> str:
    """A `run`, `train` or `rehearse` document as text."""
    parts = [_headline(document), *left_alone(document.get("left"))]
    if document.get("recoveries"):
        parts.append(recoveries(document["recoveries"]))
    parts += [f"{name}: {value}" for name, value in (document.get("metrics") or {}).items()]
    parts += left("kept", document.get("kept", ()))
    parts += left("remains", document.get("remains", ())) or ["remains: nothing"]
    parts.append(f"cost: {cost(document.get('cost_usd'))}")
    return "\n".join(parts)


def _headline(document: Mapping[str, Any]) -> str:
    words = f"{document['outcome']} (exit code {document['exit_code']})"
    if document.get("run_id"):
        words += f": run {document['run_id']}, {document['attempts']} attempt(s), last step {document['best_step']}"
    if document.get("source"):
        words += f"\nsource: {source(**document['source'])}"
    if document.get("cause"):
        words += f"\ncause: {document['cause']}"
    if document.get("advice"):
        words += f"\nadvice: {document['advice']}"
    return words


def left_alone(left: Mapping[str, Any] | None) -> list[str]:
    """What holds for a run that was left to its machine."""
    if left is None:
        return []
    quiet = "" if left["stall_s"] is None else f", says nothing for {left['stall_s']:.0f} s"
    fates = {"delete": "the machines are deleted", "keep": "the machines stay"}
    fate = fates[left["success"]]
    if left["failure"] != left["success"]:
        fate = f"{fate}, but after a failure {fates[left['failure']]}"
    return [
        f"run {left['run_id']} goes on on {left['machine']}, which keeps its lease; nobody recovers it meanwhile",
        f"once it ends, fails{quiet} or reaches its limit at {left['until']}: its outputs are saved, then {fate}",
    ]


def source(commit: str, changed: int, digest: str) -> str:
    """What was trained: the commit, and whether the tree was as committed."""
    if not commit:
        return f"in no commit that git knows of (content {digest[:12]})"
    return f"commit {commit[:12]}" + (f" and {changed} change(s) that are not committed" if changed else "")


def recoveries(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row a failure: what, the answer, when it was noticed, when training stepped again and from which step."""
    body = [
        (
            row["class"],
            row["action"],
            str(row["step"]),
            f"{row['detected_s']:.1f} s",
            "never" if row["resumed_s"] is None else f"{row['resumed_s']:.1f} s",
            "-" if row["resumed_step"] is None else str(row["resumed_step"]),
            str(row["checkpoint"] or "-"),
        )
        for row in rows
    ]
    return table(("failure", "answer", "at step", "noticed", "stepping again", "from step", "checkpoint"), body)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table that reads the same without colour and in a file."""
    drawn = Table(box=None, pad_edge=False, header_style="")
    for name in head:
        drawn.add_column(name, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=_width(), color_system=None).print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _width() -> int:
    """What fits: a terminal breaks lines anywhere, a table between words."""
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns) if sys.stdout.isatty() else WIDTH


def left(word: str, things: Sequence[Mapping[str, Any]]) -> list[str]:
    """What still stands, one line each, with the command that removes it."""
    return [f"{word}: {thing['kind']} {thing['name']} ({thing['why']})  {thing['command']}" for thing in things]


def cost(usd: float | None) -> str:
    """An estimate in words; an unknown price is said, never shown as zero."""
    return "unknown (a price is not in the tables)" if usd is None else f"about {usd:.4f} USD by list price"
