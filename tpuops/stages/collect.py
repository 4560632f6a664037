"""Collect: the run's outputs and logs go to the bucket by the machine's own identity, and are looked at there.

Nothing planned stops or deletes a machine that still lives before this has said yes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuops.cloud.port import ObjectStat, ObjectStore
from tpuops.errors import CommandFailed
from tpuops.remote.port import Agent, Saved


@dataclass(frozen=True, slots=True)
class Collected:
    """What is safely in the bucket, and what is missing there; `problem` says why where nothing could be sent."""

    saved: tuple[Saved, ...]
    missing: tuple[str, ...]
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every output the machine named is in the bucket with its size and md5."""
        return not self.missing and not self.problem


async def collect(agent: Agent, store: ObjectStore, bucket: str, prefix: str) -> Collected:
    """Have the machine upload, then compare its list with the bucket's. Raises `Unreachable`."""
    try:
        saved = await agent.collect(bucket, prefix)
    except CommandFailed as error:
        return Collected((), (), " ".join((error.message, *error.evidence)))
    return verified(saved, await store.list(prefix))


def verified(saved: tuple[Saved, ...], listed: tuple[ObjectStat, ...]) -> Collected:
    """Compare what the machine says it saved with what the bucket holds (pure)."""
    there = {stat.name: (stat.size, stat.md5) for stat in listed}
    missing = tuple(file.name for file in saved if there.get(file.name) != (file.size, file.md5))
    return Collected(saved, missing)
