"""What `lock.show` and `lock.break` say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.report.standing import held


def shown(document: Mapping[str, Any]) -> str:
    """The holder and how old its last renewal is."""
    lease = document["lease"]
    if lease is None:
        return f"{document['environment']}: nobody holds the lease"
    return (
        f"{document['environment']}: {held(document)} {lease['words']}, renewed {lease['age_s']:.0f} s ago"
        f" (generation {document['generation']})"
    )


def broken(document: Mapping[str, Any]) -> str:
    """What was taken from whom."""
    lease = document["lease"]
    if not document["broken"]:
        return f"{document['environment']}: nobody holds the lease; nothing to break"
    waited = f"; waited {document['waited_s']:.0f} s until it must have stopped" if document["waited_s"] else ""
    return (
        f"{document['environment']}: taken from {lease['words']} (generation {document['generation']}){waited};"
        " it is free now"
    )
