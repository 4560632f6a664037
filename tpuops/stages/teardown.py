"""Teardown: remove what the file says to remove, keep what it says to keep, and look again.

One failing delete never stops the others. What the second look still shows is named with the command that removes it.
Buckets and data are never deleted here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from tpuops.errors import TpuopsError
from tpuops.resources import Desired, Observed
from tpuops.stages.apply import Crew, delete_node, delete_vm
from tpuops.stages.look import look


@dataclass(frozen=True, slots=True)
class Left:
    """A resource that still stands: what it is, why, and the command that removes it."""

    kind: str
    name: str
    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Torn:
    """The end of a teardown. `remains` is what should be gone and is not; it must be empty."""

    removed: tuple[str, ...]
    kept: tuple[Left, ...]
    remains: tuple[Left, ...]


def standing(desired: Desired, observed: Observed, why: str) -> tuple[Left, ...]:
    """Node and VM that stand, as leftovers with their commands; the ones that are not ours are not mentioned."""
    place, left = desired.node.place, []
    where = f"--zone={place.zone} --project={place.project}"
    if observed.node is not None and desired.owned.owns(observed.node.labels):
        command = f"gcloud compute tpus tpu-vm delete {observed.node.name} {where}"
        left.append(Left("node", observed.node.name, why, command))
    if observed.vm is not None and desired.owned.owns(observed.vm.labels):
        command = f"gcloud compute instances delete {observed.vm.name} {where}"
        left.append(Left("vm", observed.vm.name, why, command))
    return tuple(left)


def kept_bucket(observed: Observed) -> tuple[Left, ...]:
    """The bucket as something kept."""
    if observed.bucket is None:
        return ()
    name = observed.bucket.name
    return (Left("bucket", name, "data is never deleted", f"gcloud storage rm --recursive gs://{name}"),)


async def remove(desired: Desired, crew: Crew, reason: str) -> Torn:
    """Delete node and VM together, then look; whatever still stands is in `remains`."""
    before = await look(crew.cloud, desired)
    problems = await asyncio.gather(
        _tried(delete_node(desired, crew, reason)), _tried(delete_vm(desired, crew, reason))
    )
    after = await look(crew.cloud, desired)
    why = "; ".join(problem for problem in problems if problem) or "it is still listed"
    remains = standing(desired, after, why)
    stood = {left.name for left in standing(desired, before, reason)}
    removed = tuple(sorted(stood - {left.name for left in remains}))
    return Torn(removed, kept_bucket(after), remains)


async def _tried(deletion: Awaitable[None]) -> str:
    try:
        await deletion
    except TpuopsError as error:
        return error.message
    return ""
