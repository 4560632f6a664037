"""Look: one read per resource, all in flight together. Never changes anything."""

from __future__ import annotations

import asyncio

from tpuops.cloud.port import CloudReader
from tpuops.resources import Desired, Observed, Vm


async def look(cloud: CloudReader, desired: Desired) -> Observed:
    """What stands under the names of `desired`. Raises what the reads raise."""
    place = desired.node.place
    node, vm, bucket, number = await asyncio.gather(
        cloud.node(place, desired.node.name),
        _vm(cloud, desired),
        cloud.bucket(desired.bucket.name),
        cloud.project_number(place.project),
    )
    return Observed(node=node, vm=vm, bucket=bucket, project_number=number)


async def _vm(cloud: CloudReader, desired: Desired) -> Vm | None:
    return None if desired.vm_at is None else await cloud.vm(*desired.vm_at)
