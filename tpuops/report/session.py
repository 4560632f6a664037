"""What `stop`, `fetch` and `logs` say when they are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.report.amounts import size
from tpuops.report.run import left

SHOWN = 12


def stopped(document: Mapping[str, Any]) -> str:
    """The run's end, what was saved, what stands."""
    if not document["run_id"]:
        return "no run is open: nothing to stop"
    words = f"{document['outcome']}: run {document['run_id']}"
    if document["attempts"]:
        words += f", attempt {document['attempts']}"
    words += step(document["best_step"])
    lines = [words, f"saved: {len(document['saved'])} file(s)"]
    return "\n".join(lines + left("kept", document["kept"]) + left("remains", document["remains"]))


def fetched(document: Mapping[str, Any]) -> str:
    """Where the files are, how many came, and which did not."""
    brought, equal, refused = document["brought"], document["equal"], document["refused"]
    lines = [f"{document['folder']}: {len(brought)} file(s) of run {document['run_id']}, {size(document['bytes'])}"]
    lines += [f"  {name}" for name in brought[:SHOWN]]
    if len(brought) > SHOWN:
        lines.append(f"  and {len(brought) - SHOWN} more")
    if equal:
        lines.append(f"{len(equal)} file(s) were there already, with the same content")
    lines += [f"not brought: {name}: {why}" for name, why in refused.items()]
    return "\n".join(lines)


def ended(document: Mapping[str, Any]) -> str:
    """One line on the attempt whose log was shown."""
    what = f"attempt {document['attempt']} of run {document['run_id']}"
    if document["alive"]:
        return f"{what} goes on"
    if document["exit_code"] is None:
        return what + (" (saved log)" if document["source"] == "bucket" else " ended, and nobody recorded how")
    return f"{what} ended with exit code {document['exit_code']}"


def left_log(run_id: str, attempt: int) -> str:
    """The reader went away in the middle; it never held the training."""
    return f"only the log was left; attempt {attempt} of run {run_id} goes on" if run_id else "the log was left"


def step(number: int | None) -> str:
    """The last step, nothing where none was told."""
    return "" if number is None or number < 0 else f", last step {number}"
