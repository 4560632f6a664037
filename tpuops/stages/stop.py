"""Stop: the order to end a run, left where whoever supervises it will see it.

The order is one object in the home bucket and names the run it is for. It is written before anything is ended, and read
when an attempt has ended: so a supervisor on another machine takes that end for the last one, and nobody polls.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tpuops.cloud.port import ObjectStore

NAME = "stop.json"


@dataclass(frozen=True, slots=True)
class Order:
    """Who ordered which run to end, and when (RFC 3339)."""

    run_id: str
    by: str
    at: str


async def order(store: ObjectStore, prefix: str, wanted: Order) -> None:
    """Leave the order; one for an earlier run is replaced."""
    await store.write(f"{prefix}{NAME}", json.dumps(asdict(wanted)).encode(), if_generation=None)


async def ordered(store: ObjectStore, prefix: str, run_id: str) -> Order | None:
    """The order to end this run, None where there is none."""
    found = await store.read(f"{prefix}{NAME}")
    if found is None:
        return None
    try:
        read = Order(**json.loads(found.data))
    except (ValueError, TypeError):
        return None
    return read if read.run_id == run_id else None
