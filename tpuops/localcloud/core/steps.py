"""One step in a table of states; the tables themselves are the services' (tpu/states.py, compute/states.py)."""

from __future__ import annotations

from collections.abc import Mapping

Steps = Mapping[str, frozenset[str]]


def step(steps: Steps, before: str, after: str) -> str:
    """The state after, where the table lets it follow; staying is always allowed. Breaking the table is a bug here."""
    assert before == after or after in steps[before], f"{before} -> {after}"
    return after
