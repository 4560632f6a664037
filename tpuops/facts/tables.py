"""The packaged tables, parsed once and at their first use: the listing of commands must not pay for them.

The files are data with their own sources and dates inside; this module never interprets them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=2)
def table(name: str) -> dict[str, Any]:
    """The table `accelerators` or `prices`."""
    parsed: dict[str, Any] = json.loads(files("tpuops.facts").joinpath("data", f"{name}.json").read_text("utf-8"))
    return parsed
