"""Whose machines stand beside ours: the TPUs that other people keep in the same projects, and what runs on them.

Reads only. A node says which home bucket it was made for; there lie the lease and the record of its run, as far as this
login may read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tpuops.errors import TpuopsError
from tpuops.lifecycle.site import Site
from tpuops.resources import LABEL_ENVIRONMENT, LABEL_MANAGED, LABEL_OWNER, METADATA_BUCKET, Node
from tpuops.stages import holders, lease
from tpuops.stages.record import Records


@dataclass(frozen=True, slots=True)
class Other:
    """A TPU of somebody else's; `run` and what follows are empty where nothing is on record, `unknown` says why not."""

    name: str
    environment: str
    owner: str
    zone: str
    accelerator: str
    state: str
    run: str = ""
    run_state: str = ""
    step: int = -1
    begun_by: str = ""
    supervised_by: str = ""
    unknown: str = ""


async def others(sites: Iterable[Site]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row for each TPU of other people in the projects of these sites, and what could not be looked at."""
    listed = list(sites)
    mine = {(site.desired.owned.environment, site.desired.owned.owner) for site in listed}
    asked = {(site.environment.project, site.environment.cloud): site for site in listed}
    answers = await asyncio.gather(*(_of_project(site, mine) for site in asked.values()))
    rows = [asdict(other) for found, _ in answers for other in found]
    return sorted(rows, key=lambda row: str(row["name"])), [why for _, why in answers if why]


async def _of_project(site: Site, mine: set[tuple[str, str]]) -> tuple[list[Other], str]:
    try:
        nodes = await site.cloud.nodes_anywhere(site.environment.project)
    except TpuopsError as error:
        return [], f"{site.environment.project}: {error.message}"
    theirs = [node for node in nodes if LABEL_MANAGED in node.labels and _whose(node) not in mine]
    return list(await asyncio.gather(*(_looked(site, node) for node in theirs))), ""


def _whose(node: Node) -> tuple[str, str]:
    return node.labels.get(LABEL_ENVIRONMENT, ""), node.labels.get(LABEL_OWNER, "")


async def _looked(site: Site, node: Node) -> Other:
    """What its bucket tells; a bucket that may not be read tells that."""
    environment, owner = _whose(node)
    plain = (node.name, environment, owner, node.place.zone, node.accelerator, node.state)
    if METADATA_BUCKET not in node.metadata:
        return Other(*plain, unknown="it does not say where its run is on record")
    store, prefix = site.cloud.store(node.metadata[METADATA_BUCKET]), f"tpuops/{environment}/"
    try:
        held, record = await asyncio.gather(
            store.read(f"{prefix}lease.json"), Records(store, f"{prefix}run.json").read()
        )
    except TpuopsError as error:
        return Other(*plain, unknown=error.message)
    holder = None if held is None or lease.is_free(held, holders.here()) else holders.parse(held.data)
    by = "" if holder is None else f"{holder.user} on {holder.host}"
    if record is None:
        return Other(*plain, supervised_by=by)
    told = holder.progress if holder is not None and holder.progress.get("run_id") == record.run_id else {}
    step = int(told.get("step", record.best_step))
    return Other(*plain, record.run_id, record.state, step, record.by, by)
