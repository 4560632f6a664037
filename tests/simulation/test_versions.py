"""Two versions of tpuops on one bucket: an earlier one's words are read, a later one's are not written over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.cast import Entrance, acted, machine_changes
from tests.simulation.core_cloud import CoreCloud
from tests.simulation.lives import CURRENT, Life
from tests.simulation.loop import VirtualClock, live
from tests.simulation.net import Net
from tests.simulation.sweep import Scene
from tpuops import switch
from tpuops.cloud.port import ObjectStore
from tpuops.diagnosis.verdict import Action
from tpuops.errors import Busy
from tpuops.journal import Journal
from tpuops.localcloud.core.core import Core
from tpuops.localcloud.core.world import World
from tpuops.resources import BucketSpec
from tpuops.stages import holders, lease, record

NAME = "lease.json"
EARLIER_HOLDER = {
    "token": "t1", "user": "bob", "host": "his", "pid": 4, "started": "s", "since": "2026-09-21", "doing": "run",
}  # fmt: skip
"""As the first version wrote it: neither terms nor form."""

EARLIER_RECORD = {
    "run_id": "r1", "state": "running", "source": "d", "started": "2026-09-21T00:00:00+00:00", "attempt": 2,
    "node_id": "7", "best_step": 40, "recoveries": [], "outcome": {},
    "past": [{"failure_class": "native_crash", "action": str(Action.RETRY_IN_PLACE), "step": 12}],
}  # fmt: skip


def on_a_bucket(act: Callable[[ObjectStore], Awaitable[Any]]) -> Any:
    """What comes of it, in virtual time, on the embedded cloud's core."""

    async def main() -> Any:
        net = Net(Core(World(), seed=1), lambda event: None, lambda: None)
        net.start()
        CURRENT.set(Life("desk", 1))
        cloud = CoreCloud(net, CURRENT.get())
        await cloud.create_bucket(BucketSpec("b-of-versions", "local-sim", "us-central1", {}))
        return await act(cloud.store("b-of-versions"))

    return live(main())


def taken(store: ObjectStore) -> Awaitable[lease.Lease]:
    clock = VirtualClock()
    return lease.take(store, NAME, holders.myself("ada", "run", clock), clock, Journal(clock, None))


@pytest.mark.parametrize("wait_s", [0.0, 10_000.0], ids=["fresh", "expired"])
def test_a_lease_of_a_later_version_is_never_written_over_whatever_its_age(wait_s: float) -> None:
    later = json.dumps({**EARLIER_HOLDER, "format": holders.FORMAT + 1, "quorum": ["x"]}).encode()

    async def act(store: ObjectStore) -> None:
        written = await store.write(NAME, later, if_generation=0)
        await asyncio.sleep(wait_s)
        with pytest.raises(Busy, match=r"later version.*bob on his") as refused:
            await taken(store)
        assert "later" in refused.value.hint
        found = await store.read(NAME)
        assert found is not None
        assert (found.stat.generation, found.data) == (written.generation, later)

    on_a_bucket(act)


@pytest.mark.parametrize("more", [{}, {"quorum": ["x"]}], ids=["earlier", "with a word we do not know"])
def test_a_lease_of_another_version_is_read_and_taken_once_it_expired(more: dict[str, Any]) -> None:
    async def act(store: ObjectStore) -> None:
        await store.write(NAME, json.dumps({**EARLIER_HOLDER, **more}).encode(), if_generation=0)
        found = await store.read(NAME)
        assert found is not None
        assert holders.parse(found.data).words() == "bob on his (process 4), since 2026-09-21, for `run`"
        began = asyncio.get_running_loop().time()
        held = await taken(store)
        assert asyncio.get_running_loop().time() - began > switch.TTL_S
        await held.release()

    on_a_bucket(act)


@pytest.mark.parametrize("ttl_s", [0, -1, 1e9, "long", None, True], ids=str)
def test_a_holder_that_claims_an_absurd_term_is_one_that_nobody_knows(ttl_s: Any) -> None:
    read = holders.parse(json.dumps({**EARLIER_HOLDER, "ttl_s": ttl_s}).encode())
    assert read.ttl_s == switch.TTL_S or ttl_s is True


def test_a_record_of_an_earlier_version_is_read() -> None:
    read = record.parse(json.dumps(EARLIER_RECORD).encode())
    assert read is not None
    assert (read.run_id, read.attempt, read.best_step, read.past[0].step) == ("r1", 2, 40, 12)
    assert record.parse(read.data()) == read


def test_words_of_a_later_version_in_a_record_of_this_form_are_passed_over() -> None:
    assert record.parse(json.dumps({**EARLIER_RECORD, "slices": 4}).encode()) is not None


def test_a_record_that_cannot_be_read_is_kept_beside_the_one_that_takes_its_place() -> None:
    async def act(store: ObjectStore) -> None:
        spoilt = await store.write("run.json", b"\x00 half a rec", if_generation=0)
        records = record.Records(store, "run.json")
        assert await records.read() is None
        read = record.parse(json.dumps(EARLIER_RECORD).encode())
        assert read is not None
        await records.write(read)
        aside = await store.read(f"run.json.unreadable-{spoilt.generation}")
        assert aside is not None
        assert aside.data == b"\x00 half a rec"
        assert await records.read() == read

    on_a_bucket(act)


@pytest.mark.parametrize("command", ["run", "train", "down", "stop"])
def test_no_command_touches_machines_or_the_record_of_a_later_version(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` stands; then the record turns into one of a later version, as if a newer tpuops had begun a run."""
    later = json.dumps({**EARLIER_RECORD, "format": record.FORMAT + 1}).encode()
    read = record.Records.read

    async def reads(self: record.Records) -> Any:
        """The object is put there just before the first look at it."""
        if CURRENT.get().pid == 2:
            found = await self._store.read(self._name)
            if found is None or found.data != later:
                await self._store.write(self._name, later, if_generation=None)
        return await read(self)

    monkeypatch.setattr(record.Records, "read", reads)
    schedule = replace(Scene("versions", "up").schedule())
    seen = acted(schedule, (Entrance(0, "up", "desk"), Entrance(20, command, "desk")))
    assert seen.end(2).exit_code == 7
    assert "later version" in seen.end(2).error
    assert machine_changes(seen.by(2)) == []
    writes = [made for made in seen.by(2) if made.resource.endswith("/run.json")]
    assert len(writes) == 1, "only the one that this test planted"
