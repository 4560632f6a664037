"""A lease whose login is revoked while it is held: the holder stops in time, and ending is never an error."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.simulation.loop import VirtualClock, live
from tpuops.cloud.port import ObjectStat, StoredObject
from tpuops.errors import AccessError, Busy
from tpuops.journal import Journal
from tpuops.stages import lease


class Revocable:
    """One object of a bucket, until the login is revoked."""

    def __init__(self) -> None:
        self.stat: ObjectStat | None = None
        self.revoked = False

    async def read(self, name: str) -> StoredObject | None:
        self._check()
        return None

    async def write(self, name: str, data: bytes, *, if_generation: int | None) -> ObjectStat:
        self._check()
        generation = 1 if self.stat is None else self.stat.generation + 1
        self.stat = ObjectStat(name, generation, len(data), "", datetime.now(UTC))
        return self.stat

    async def delete(self, name: str, *, if_generation: int | None = None) -> None:
        self._check()

    def _check(self) -> None:
        if self.revoked:
            raise AccessError("the saved login has expired or was revoked")


def test_a_holder_whose_login_is_revoked_stops_acting_and_still_ends_well() -> None:
    async def life() -> None:
        clock = VirtualClock()
        store = Revocable()
        me = lease.myself("ada", "run", clock)
        held = await lease.take(store, "lease.json", me, clock, Journal(clock, None))
        await asyncio.sleep(lease.TTL_S * 0.75)
        await held.check()
        store.revoked = True
        await asyncio.sleep(lease.TTL_S * 1.25)
        with pytest.raises(Busy, match="could not be renewed"):
            await held.check()
        await held.release()

    live(life())
