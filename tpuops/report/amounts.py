"""Amounts as people say them. Pure."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes, with one decimal from a KiB on."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} GiB"
