"""A lease whose login is revoked while it is held, or whose holder's machine is suspended: the holder stops in time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.simulation.loop import VirtualClock, live
from tests.simulation.test_versions import NAME, on_a_bucket
from tpuops.clock import SystemClock
from tpuops.cloud.port import ObjectStat, ObjectStore, StoredObject
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


class Laptop(VirtualClock):
    """Suspended now and then: only `elapsed` counts that."""

    def __init__(self) -> None:
        self.suspended_s = 0.0

    def elapsed(self) -> float:
        return self.monotonic() + self.suspended_s


@pytest.mark.parametrize("taken", [True, False], ids=["somebody took it", "nobody took it"])
def test_a_holder_whose_machine_was_suspended_asks_before_it_acts(taken: bool) -> None:
    async def act(store: ObjectStore) -> None:
        clock, elsewhere = Laptop(), VirtualClock()
        held = await lease.take(store, NAME, lease.myself("ada", "run", clock), clock, Journal(clock, None))
        await held.check()
        if taken:
            found = await store.read(NAME)
            assert found is not None
            other = replace(lease.myself("bob", "run", elsewhere), host="elsewhere")
            await store.write(NAME, other.data(), if_generation=found.stat.generation)
        clock.suspended_s = 7200.0
        if taken:
            with pytest.raises(Busy, match="it is held by bob on elsewhere"):
                await held.check()
        else:
            await held.check()
        await held.release()

    on_a_bucket(act)


def test_this_machine_s_clock_counts_its_suspensions() -> None:
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(SystemClock().elapsed() - up_s) < 5
    assert abs(SystemClock().elapsed() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1
