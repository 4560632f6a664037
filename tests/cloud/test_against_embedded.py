"""The port's contract, over the wire, against the embedded cloud: the same client code that will speak to Google."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cloud_fixture import LocalCloud, cloud  # noqa: F401 - a fixture
from tpuops.clock import SystemClock
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.endpoints import at
from tpuops.cloud.port import ObjectStore
from tpuops.errors import Conflict, NoCapacity, Refused, Transient
from tpuops.resources import BucketSpec, NodeSpec, Owned, Place, VmSpec

pytestmark = pytest.mark.wire

PLACE = Place("local-project", "us-central1-a")
LABELS = Owned("v3-8", "ann").labels
METADATA = {"ssh-keys": "tpuops:ssh-ed25519 AAAA tpuops", "enable-guest-attributes": "TRUE"}
NO_CAPACITY = 'There is no more capacity in the zone "us-central1-a"; you can try in another zone'


@dataclass(frozen=True)
class Wire:
    """An embedded cloud, the product's client on it, and what its own log says."""

    served: LocalCloud

    @property
    def cloud(self) -> GoogleCloud:
        return GoogleCloud(at(self.served.url, self.served.ssh_port), SystemClock())

    def fault(self, on: dict[str, Any], do: dict[str, Any]) -> None:
        self.served.add_faults([{"on": on, "do": do}])

    def carried_out(self, method: str, after: int) -> int:
        """How often a method changed something since entry `after` of the log."""
        return len(self.served.requests(after, method=method, status=200))

    @property
    def now(self) -> int:
        return max((entry["n"] for entry in self.served.requests()), default=0)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    served = LocalCloud(tmp_path_factory.mktemp("wire") / "cloud", "--seed", "1", "--no-machines")
    served.start()
    try:
        yield Wire(served)
        assert [fault for fault in served.faults() if fault["fired_at"] is None] == []
    finally:
        served.stop()


@pytest.fixture
async def store(wire: Wire) -> ObjectStore:
    name = f"tpuops-test-{uuid.uuid4().hex[:8]}"
    await wire.cloud.create_bucket(BucketSpec(name, PLACE.project, "us-central1", LABELS))
    return wire.cloud.store(name)


def node_spec(name: str, *, spot: bool = False) -> NodeSpec:
    return NodeSpec(name, PLACE, "v3-8", "tpu-ubuntu2204-base", spot, LABELS, METADATA)


def vm_spec(name: str) -> VmSpec:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    image = "projects/debian-cloud/global/images/family/debian-12"
    return VmSpec(name, PLACE, "e2-small", image, 10, LABELS, METADATA, terminate_at=end)


async def test_a_node_lives_from_creation_to_deletion(wire: Wire) -> None:
    there, name = wire.cloud, "whole-life"
    await there.wait(await there.create_node(node_spec(name)), 30)
    made = await there.node(PLACE, name)
    assert made is not None
    assert (made.state, made.accelerator, made.runtime, made.spot) == ("READY", "v3-8", "tpu-ubuntu2204-base", False)
    assert made.labels == LABELS
    assert made.metadata["ssh-keys"] == METADATA["ssh-keys"]
    assert len(made.workers) == 1
    assert made.workers[0].external_ip
    assert made.created is not None
    assert abs(made.created - datetime.now(UTC)) < timedelta(minutes=1)
    await there.wait(await there.stop_node(PLACE, name), 30)
    stopped = await there.node(PLACE, name)
    assert stopped is not None
    assert stopped.state == "STOPPED"
    await there.wait(await there.start_node(PLACE, name), 30)
    started = await there.node(PLACE, name)
    assert started is not None
    assert (started.state, started.id) == ("READY", made.id)
    gone = await there.delete_node(PLACE, name)
    assert gone is not None
    await there.wait(gone, 30)
    assert await there.node(PLACE, name) is None
    assert await there.delete_node(PLACE, name) is None


async def test_host_keys_are_published_some_time_after_the_start(cloud: LocalCloud) -> None:  # noqa: F811
    there, name, keys = GoogleCloud(at(cloud.url, cloud.ssh_port), SystemClock()), "with-keys", ()
    await there.wait(await there.create_node(node_spec(name)), 30)
    for _ in range(200):
        keys = await there.host_keys(PLACE, name, 0)
        if keys:
            break
        await asyncio.sleep(0.05)
    assert any(key.startswith("ssh-ed25519 AAAA") for key in keys)


async def test_a_vm_lives_from_creation_to_deletion(wire: Wire) -> None:
    there, name = wire.cloud, "whole-vm"
    await there.wait(await there.create_vm(vm_spec(name)), 30)
    made = await there.vm(PLACE, name)
    assert made is not None
    assert (made.state, made.machine_type, made.labels) == ("RUNNING", "e2-small", LABELS)
    assert made.external_ip
    gone = await there.delete_vm(PLACE, name)
    assert gone is not None
    await there.wait(gone, 30)
    assert await there.vm(PLACE, name) is None
    assert await there.delete_vm(PLACE, name) is None


async def test_a_taken_name_is_a_conflict(wire: Wire) -> None:
    there = wire.cloud
    first = await there.create_vm(vm_spec("taken"))
    with pytest.raises(Conflict):
        await there.create_vm(vm_spec("taken"))
    await there.wait(first, 30)
    node = await there.create_node(node_spec("taken"))
    with pytest.raises(Conflict):
        await there.create_node(node_spec("taken"))
    await there.wait(node, 30)
    await asyncio.gather(there.delete_vm(PLACE, "taken"), there.delete_node(PLACE, "taken"))


@pytest.mark.parametrize("deed", ["lose_reply", "drop_request"])
async def test_lost_on_the_way_there_is_still_exactly_one_node(wire: Wire, deed: str) -> None:
    there, name, before = wire.cloud, f"once-{deed.replace('_', '-')}", wire.now
    wire.fault({"method": "tpu.nodes.create"}, {deed: True})
    await there.wait(await there.create_node(node_spec(name)), 30)
    made = await there.node(PLACE, name)
    assert made is not None
    assert made.state == "READY"
    assert wire.carried_out("tpu.nodes.create", before) == 1
    wire.fault({"method": "tpu.nodes.delete"}, {deed: True})
    gone = await there.delete_node(PLACE, name)
    if gone is not None:
        await there.wait(gone, 30)
    assert await there.node(PLACE, name) is None


@pytest.mark.parametrize("deed", ["lose_reply", "drop_request"])
async def test_stop_and_start_survive_a_lost_reply(wire: Wire, deed: str) -> None:
    there, name = wire.cloud, f"stop-{deed.replace('_', '-')}"
    await there.wait(await there.create_node(node_spec(name)), 30)
    wire.fault({"method": "tpu.nodes.stop"}, {deed: True})
    await there.wait(await there.stop_node(PLACE, name), 30)
    wire.fault({"method": "tpu.nodes.start"}, {deed: True})
    await there.wait(await there.start_node(PLACE, name), 30)
    found = await there.node(PLACE, name)
    assert found is not None
    assert found.state == "READY"
    await there.delete_node(PLACE, name)


@pytest.mark.parametrize("deed", ["lose_reply", "drop_request"])
async def test_lost_on_the_way_there_is_still_exactly_one_vm(wire: Wire, deed: str) -> None:
    there, name = wire.cloud, f"vm-{deed.replace('_', '-')}"
    wire.fault({"method": "compute.instances.insert"}, {deed: True})
    await there.wait(await there.create_vm(vm_spec(name)), 30)
    made = await there.vm(PLACE, name)
    assert made is not None
    wire.fault({"method": "compute.instances.delete"}, {deed: True})
    gone = await there.delete_vm(PLACE, name)
    if gone is not None:
        await there.wait(gone, 30)
    assert await there.vm(PLACE, name) is None


async def test_after_a_lost_reply_somebody_elses_node_stays_untouched(wire: Wire) -> None:
    there, name = wire.cloud, "of-bob"
    bobs = replace(node_spec(name), labels=Owned("v3-8", "bob").labels)
    await there.wait(await there.create_node(bobs), 30)
    wire.fault({"method": "tpu.nodes.create"}, {"drop_request": True})
    with pytest.raises(Conflict):
        await there.create_node(node_spec(name))
    found = await there.node(PLACE, name)
    assert found is not None
    assert found.labels == bobs.labels
    await there.delete_node(PLACE, name)


async def test_capacity_that_runs_out_late_is_told_from_quota(wire: Wire) -> None:
    there, name = wire.cloud, "late"
    wire.fault({"method": "tpu.nodes.create"}, {"fail_operation": {"code": 8, "message": NO_CAPACITY}})
    operation = await there.create_node(node_spec(name))
    with pytest.raises(NoCapacity, match="no more capacity") as raised:
        await there.wait(operation, 30)
    assert raised.value.exit_code == 4
    await there.delete_node(PLACE, name)


async def test_a_stopped_node_may_find_no_capacity_at_its_start(wire: Wire) -> None:
    there, name = wire.cloud, "late-start"
    await there.wait(await there.create_node(node_spec(name)), 30)
    await there.wait(await there.stop_node(PLACE, name), 30)
    wire.fault({"method": "tpu.nodes.start"}, {"fail_operation": {"code": 8, "message": NO_CAPACITY}})
    operation = await there.start_node(PLACE, name)
    with pytest.raises(NoCapacity):
        await there.wait(operation, 30)
    found = await there.node(PLACE, name)
    assert found is not None
    assert found.state == "STOPPED"
    await there.delete_node(PLACE, name)


async def test_a_refusal_is_not_repeated_and_a_passing_fault_is(wire: Wire) -> None:
    there, before = wire.cloud, wire.now
    with pytest.raises(Refused):
        await there.create_node(replace(node_spec("nowhere"), accelerator="v3-64"))
    assert len(wire.served.requests(before, method="tpu.nodes.create")) == 1
    unavailable = {"http": 503, "status": "UNAVAILABLE", "message": "The service is currently unavailable."}
    wire.fault({"method": "tpu.nodes.get"}, {"error": unavailable})
    assert await there.node(PLACE, "not-there") is None


async def test_a_spot_node_is_never_stopped(wire: Wire) -> None:
    there, name = wire.cloud, "spot"
    await there.wait(await there.create_node(node_spec(name, spot=True)), 30)
    with pytest.raises((Refused, Conflict)):
        await there.stop_node(PLACE, name)
    await there.delete_node(PLACE, name)


async def test_a_bucket_is_ours_by_its_project_and_made_once(wire: Wire) -> None:
    there, spec = wire.cloud, BucketSpec("tpuops-once-12345678", PLACE.project, "us-central1", LABELS)
    wire.fault({"method": "storage.buckets.insert"}, {"lose_reply": True})
    made = await there.create_bucket(spec)
    assert (made.name, made.location, made.labels) == (spec.name, "us-central1", LABELS)
    assert made.project_number == await there.project_number(PLACE.project)
    assert made.project_number.isdigit()
    with pytest.raises(Conflict):
        await there.create_bucket(spec)
    assert (await there.bucket(spec.name)) == made
    assert await there.bucket("tpuops-nobody-12345678") is None


async def test_objects_carry_a_lock(store: ObjectStore) -> None:
    assert await store.read("lease.json") is None
    first = await store.write("lease.json", b'{"holder": "ann"}', if_generation=0)
    with pytest.raises(Conflict):
        await store.write("lease.json", b'{"holder": "bob"}', if_generation=0)
    found = await store.read("lease.json")
    assert found is not None
    assert found.data == b'{"holder": "ann"}'
    assert found.stat == first
    assert abs(found.server_now - datetime.now(UTC)) < timedelta(seconds=10)
    await asyncio.sleep(1)  # one write a second an object (google-there.md 4.2)
    second = await store.write("lease.json", b"{}", if_generation=first.generation)
    assert second.generation != first.generation
    with pytest.raises(Conflict):
        await store.delete("lease.json", if_generation=first.generation)
    await asyncio.sleep(1)
    await store.delete("lease.json", if_generation=second.generation)
    await store.delete("lease.json")
    assert await store.read("lease.json") is None


async def test_a_lock_taken_through_a_lost_reply_is_held(wire: Wire, store: ObjectStore) -> None:
    wire.fault({"method": "storage.objects.insert"}, {"lose_reply": True})
    mine = await store.write("lease.json", b'{"token": "4711"}', if_generation=0)
    found = await store.read("lease.json")
    assert found is not None
    assert found.stat.generation == mine.generation
    assert found.data == b'{"token": "4711"}'


async def test_of_many_who_reach_for_the_lock_one_gets_it(store: ObjectStore) -> None:
    writes = [store.write("lease.json", f"{number}".encode(), if_generation=0) for number in range(8)]
    ends = await asyncio.gather(*writes, return_exceptions=True)
    won = [number for number, end in enumerate(ends) if not isinstance(end, BaseException)]
    assert len(won) == 1, ends
    assert all(isinstance(end, Conflict | Transient) for end in ends if isinstance(end, BaseException))
    found = await store.read("lease.json")
    assert found is not None
    assert found.data == str(won[0]).encode()


async def test_a_listing_is_by_name_and_only_below_its_prefix(store: ObjectStore) -> None:
    for name in ("runs/2", "runs/1", "other"):
        await store.write(name, name.encode(), if_generation=None)
    assert [stat.name for stat in await store.list("runs/")] == ["runs/1", "runs/2"]
    assert await store.list("none/") == ()


async def test_bytes_come_back_as_they_went(store: ObjectStore) -> None:
    data = bytes(range(256)) * 5000
    stat = await store.write("big", data, if_generation=0)
    found = await store.read("big")
    assert found is not None
    assert (found.data == data, stat.size) == (True, len(data))
