"""Teardown: remove what the file says to remove, keep what it says to keep, and look again.

One failing delete never stops the others. What the second look still shows is named with the command that removes it.
A removal that was begun is finished and looked at whatever signal comes; only a second Ctrl-C ends the process in it.
Buckets and data are never deleted here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tpuops.errors import Busy, TpuopsError, Transient
from tpuops.resources import Desired, Node, Observed, Vm
from tpuops.stages.apply import Crew, delete_node, delete_vm
from tpuops.stages.look import look

TRY_AGAIN_S = (2.0, 5.0, 10.0)


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


def unknown(desired: Desired, why: str) -> tuple[Left, ...]:
    """Node and VM where nobody could look: they may stand, so they are named."""
    place = desired.node.place
    node = Node(desired.node.name, place, "", "", "", "", "", desired.node.spot, desired.owned.labels, ())
    vm = None if desired.vm is None else Vm(desired.vm.name, desired.vm.place, "", "", "", desired.owned.labels)
    return standing(desired, Observed(node, vm, None), f"nobody could look whether it stands: {why}")


def kept_bucket(observed: Observed) -> tuple[Left, ...]:
    """The bucket as something kept."""
    if observed.bucket is None:
        return ()
    name = observed.bucket.name
    return (Left("bucket", name, "data is never deleted", f"gcloud storage rm --recursive gs://{name}"),)


async def remove(desired: Desired, crew: Crew, reason: str) -> Torn:
    """Delete node and VM together, then look; whatever still stands, or cannot be looked at, is in `remains`.

    Raises:
        Busy: the lease was lost: what stands is somebody else's to remove.
        CancelledError: a signal came meanwhile, and nothing remains.
    """
    removal = asyncio.ensure_future(_removed(desired, crew, reason))
    try:
        return await asyncio.shield(removal)
    except asyncio.CancelledError:
        crew.journal.record("teardown.finishing")
        torn = await removal
        if torn.remains:
            return torn  # that outranks the signal
        raise


async def _removed(desired: Desired, crew: Crew, reason: str) -> Torn:
    before, _ = await seen(desired, crew)
    problems = await asyncio.gather(
        _tried(lambda: delete_node(desired, crew, reason), crew),
        _tried(lambda: delete_vm(desired, crew, reason), crew),
    )
    after, unseen = await seen(desired, crew)
    why = "; ".join(problem for problem in (*problems, unseen) if problem) or "it is still listed"
    remains = unknown(desired, why) if after is None else standing(desired, after, why)
    if remains:
        await crew.fence()  # who lost the lease meanwhile sees what its successor made
    stood = set() if before is None else {left.name for left in standing(desired, before, reason)}
    removed = tuple(sorted(stood - {left.name for left in remains}))
    return Torn(removed, () if after is None else kept_bucket(after), remains)


async def seen(desired: Desired, crew: Crew) -> tuple[Observed | None, str]:
    """What stands, or why it cannot be told."""
    found: list[Observed] = []

    async def see() -> None:
        found.append(await look(crew.cloud, desired))

    problem = await _tried(see, crew)
    return (found[0] if found else None), problem


async def _tried(act: Callable[[], Awaitable[None]], crew: Crew) -> str:
    """Do it, again after each passing fault for a bounded time; the last problem in words, empty where it worked."""
    for wait_s in (*TRY_AGAIN_S, None):
        try:
            await act()
        except Busy:
            raise
        except TpuopsError as error:
            if wait_s is None or not isinstance(error, Transient):
                return error.message
            crew.journal.record("teardown.again", wait_s=wait_s, why=error.message)
            await crew.clock.sleep(wait_s)
        else:
            return ""
    return ""
