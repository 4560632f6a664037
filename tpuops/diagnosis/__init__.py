"""From logs and states to what happened and what to do: pure functions over data, no calls, no clock, no files written.

`diagnose` turns evidence into a verdict, `decide` a verdict into one move, `report_of` logs into what `diagnose` shows.
Imports are lazy, so that reading a class name costs no regular-expression engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuops.diagnosis.evidence import diagnose
    from tpuops.diagnosis.ladder import decide
    from tpuops.diagnosis.logs import report_of

__all__ = ["decide", "diagnose", "report_of"]

_ROOMS = {
    "decide": "tpuops.diagnosis.ladder",
    "diagnose": "tpuops.diagnosis.evidence",
    "report_of": "tpuops.diagnosis.logs",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(name)
    import importlib  # noqa: PLC0415 - the point is to import late

    return getattr(importlib.import_module(_ROOMS[name]), name)
