"""A lease whose login is revoked while it is held, or whose holder's machine is suspended: the holder stops in time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.simulation.loop import VirtualClock, live
from tests.simulation.test_versions import NAME, on_a_bucket
from tpuops import switch
from tpuops.clock import SystemClock
from tpuops.cloud.port import ObjectStat, ObjectStore, StoredObject
from tpuops.errors import AccessError, Busy
from tpuops.journal import Journal
from tpuops.stages import holders, lease
from tpuops.switch import Keeper


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
        me = holders.myself("ada", "run", clock)
        held = await lease.take(store, "lease.json", me, clock, Journal(clock, None))
        await asyncio.sleep(switch.TTL_S * 0.75)
        await held.check()
        store.revoked = True
        await asyncio.sleep(switch.TTL_S * 1.25)
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
        held = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
        await held.check()
        if taken:
            found = await store.read(NAME)
            assert found is not None
            other = replace(holders.myself("bob", "run", elsewhere), host="elsewhere")
            await store.write(NAME, other.data(), if_generation=found.stat.generation)
        clock.suspended_s = 7200.0
        if taken:
            with pytest.raises(Busy, match="it is held by bob on elsewhere"):
                await held.check()
        else:
            await held.check()
        await held.release()

    on_a_bucket(act)


KEEPER = Keeper("r1", "node", "ada", "2026-11-20T09:00:00+00:00", 2e9, 60.0, "delete", "keep")


def test_a_lease_that_is_left_to_a_machine_is_nobody_s_who_acts_and_anybody_s_who_comes() -> None:
    async def act(store: ObjectStore) -> None:
        clock = VirtualClock()
        me, other = (replace(holders.myself("ada", "run", clock), host=host) for host in ("laptop", "desktop"))
        held = await lease.take(store, NAME, me, clock, Journal(clock, None))
        generation = await held.leave(KEEPER)
        with pytest.raises(Busy, match="left to node itself"):
            await held.check()
        await asyncio.sleep(switch.TTL_S)
        await held.release()
        found = await store.read(NAME)
        assert found is not None
        assert found.stat.generation == generation, "it was renewed, or given back"
        kept = holders.parse(found.data)
        assert (kept.is_kept, kept.keeper) == (True, asdict(KEEPER))
        assert not holders.is_dead(kept, "node")

        await store.write(NAME, found.data, if_generation=generation)  # as its machine does
        came = clock.monotonic()
        next_ = await lease.take(store, NAME, other, clock, Journal(clock, None))
        assert clock.monotonic() - came < lease.LOOK_S, "it was waited for"
        await next_.check()
        await next_.release()
        found = await store.read(NAME)
        assert found is not None
        assert holders.parse(found.data) == kept
        last = await lease.take(store, NAME, me, clock, Journal(clock, None))
        last.forget()
        await last.release()
        assert await store.read(NAME) is None

    on_a_bucket(act)


def test_a_lease_that_was_to_be_given_back_tells_its_machine_so_from_the_first_write_on() -> None:
    async def act(store: ObjectStore) -> None:
        clock = VirtualClock()
        first, second = (replace(holders.myself(name, "up", clock), host=name) for name in ("bob", "eve"))
        held = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
        held.tell(lambda: {"step": 7})
        await held.leave(KEEPER)
        killed = await lease.take(store, NAME, first, clock, Journal(clock, None))
        for _ in range(2):  # as it took it, and as it renews it
            found = await store.read(NAME)
            assert found is not None
            there = holders.parse(found.data)
            assert (there.token, there.keeper, there.is_kept) == (first.token, asdict(KEEPER), False)
            await asyncio.sleep(switch.TTL_S / 2)
        killed._renewing.cancel()  # type: ignore[union-attr]
        await asyncio.sleep(switch.TTL_S + 1)
        await (await lease.take(store, NAME, second, clock, Journal(clock, None))).release()
        found = await store.read(NAME)
        assert found is not None
        kept = holders.parse(found.data)
        assert (kept.is_kept, kept.host, kept.user, kept.progress) == (True, "node", "ada", {"step": 7})

    on_a_bucket(act)


def test_a_lease_whose_leaving_lost_its_reply_is_left_all_the_same() -> None:
    async def act(store: ObjectStore) -> None:
        clock = VirtualClock()
        held = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
        write = store.write

        async def twice(name: str, data: bytes, *, if_generation: int | None) -> ObjectStat:
            await write(name, data, if_generation=if_generation)
            return await write(name, data, if_generation=if_generation)

        store.write = twice  # type: ignore[method-assign]
        generation = await held.leave(KEEPER)
        found = await store.read(NAME)
        assert found is not None
        assert (found.stat.generation, holders.parse(found.data).is_kept) == (generation, True)
        await held.release()

    on_a_bucket(act)


def test_a_lease_that_was_lost_cannot_be_left_to_a_machine() -> None:
    async def act(store: ObjectStore) -> None:
        clock = VirtualClock()
        held = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
        other = replace(holders.myself("bob", "run", clock), host="elsewhere")
        await store.write(NAME, other.data(), if_generation=None)
        with pytest.raises(Busy, match="it is held by bob on elsewhere"):
            await held.leave(KEEPER)
        found = await store.read(NAME)
        assert found is not None
        assert holders.parse(found.data).token == other.token

    on_a_bucket(act)


@pytest.mark.parametrize("unsure", [False, True], ids=["", "a renewal's reply was lost before"])
def test_a_lease_whose_machine_is_made_anew_is_given_back_to_nobody(unsure: bool) -> None:
    async def act(store: ObjectStore) -> None:
        clock = VirtualClock()
        left = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
        await left.leave(KEEPER)
        held = await lease.take(store, NAME, holders.myself("bob", "up", clock), clock, Journal(clock, None))
        held.forget()
        if unsure:
            await _written_again(store)
        await asyncio.sleep(switch.TTL_S / 2)
        found = await store.read(NAME)
        assert found is not None
        assert (holders.parse(found.data).user, holders.parse(found.data).keeper) == ("bob", {})
        await held.release()
        assert await store.read(NAME) is None

    on_a_bucket(act)


async def _written_again(store: ObjectStore) -> None:
    """What a renewal that was committed, and of which nothing was heard, leaves: our words, of a later generation."""
    found = await store.read(NAME)
    assert found is not None
    await store.write(NAME, found.data, if_generation=found.stat.generation)


@pytest.mark.parametrize("kept", [False, True], ids=["deleted", "given back to its machine"])
def test_a_lease_ends_well_after_a_renewal_whose_reply_was_lost(kept: bool) -> None:
    async def act(store: ObjectStore) -> None:
        clock, said = VirtualClock(), list[str]()
        journal = Journal(clock, None, (lambda event: said.append(event.kind),))
        if kept:
            left = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
            await left.leave(KEEPER)
        held = await lease.take(store, NAME, holders.myself("bob", "up", clock), clock, journal)
        await _written_again(store)
        await held.release()
        found = await store.read(NAME)
        assert (found is not None and holders.parse(found.data).is_kept) is kept
        assert kept or found is None
        assert said == []

    on_a_bucket(act)


def test_a_lease_is_left_to_a_machine_after_a_renewal_whose_reply_was_lost() -> None:
    async def act(store: ObjectStore) -> None:
        clock = VirtualClock()
        held = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))
        await _written_again(store)
        generation = await held.leave(KEEPER)
        found = await store.read(NAME)
        assert found is not None
        assert (found.stat.generation, holders.parse(found.data).is_kept) == (generation, True)

    on_a_bucket(act)


def test_a_lease_that_another_took_meanwhile_is_not_touched_at_the_end_and_that_is_said() -> None:
    async def act(store: ObjectStore) -> None:
        clock, said = VirtualClock(), list[tuple[str, str]]()
        journal = Journal(clock, None, (lambda event: said.append((event.kind, event.facts["why"])),))
        held = await lease.take(store, NAME, holders.myself("ada", "run", clock), clock, journal)
        other = replace(holders.myself("bob", "run", clock), host="elsewhere")
        written = await store.write(NAME, other.data(), if_generation=None)
        await held.release()
        found = await store.read(NAME)
        assert found is not None
        assert found.stat.generation == written.generation
        assert [(kind, why[:30]) for kind, why in said] == [("lease.lost", "it is held by bob on elsewhere")]

    on_a_bucket(act)


def test_this_machine_s_clock_counts_its_suspensions() -> None:
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(SystemClock().elapsed() - up_s) < 5
    assert abs(SystemClock().elapsed() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1


@pytest.mark.parametrize(("later_s", "age_s"), [(-0.4, 0.0), (0.0, 0.0), (61.5, 61.5)])
def test_what_was_written_within_the_second_of_the_answer_is_0_old(later_s: float, age_s: float) -> None:
    now = datetime(2026, 11, 22, 3, 34, 4, tzinfo=UTC)
    found = StoredObject(ObjectStat(NAME, 1, 0, "", now - timedelta(seconds=later_s)), b"", now)
    assert found.age_s == age_s
