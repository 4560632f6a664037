"""What a row of the retry table is, and what each row needs to stand before its call is made."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from tests.cloud_fixture import LocalCloud
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.networks import Subnetwork
from tpuops.cloud.port import Operation
from tpuops.resources import BucketSpec, NodeSpec, Owned, Place, VmSpec

LABELS = Owned("v3-8", "ann").labels
METADATA = {"enable-guest-attributes": "TRUE"}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} ann"
BIG = bytes(range(256)) * 2048
"""512 KiB: an answer that can break off after 256."""


class Why(Enum):
    """Why a call may be made again after it failed in passing."""

    NATURE = "a second time changes nothing that the first has not: a read, or a whole value set again"
    CONDITION = "the second is refused where the first was carried out, and what stands is known as ours"
    LOOKED = "the resource is looked at before, and not asked for again where the first was carried out"
    REQUEST = "the second names the first by its request id and starts nothing of its own"
    SEEN_LATE = "as LOOKED; where the first is not to be seen yet, the same whole value is set once more"
    ANY = "whatever comes is an answer: only its Date is read"


@dataclass(frozen=True)
class Cell:
    """One row under one family: a project and a bucket of its own, both named `name`."""

    served: LocalCloud
    cloud: GoogleCloud
    name: str

    @property
    def place(self) -> Place:
        return Place(self.name, "us-central1-a")

    @property
    def node(self) -> NodeSpec:
        return NodeSpec("n", self.place, "v3-8", "tpu-ubuntu2204-base", spot=False, labels=LABELS, metadata=METADATA)

    @property
    def vm(self) -> VmSpec:
        image, end = "projects/debian-cloud/global/images/family/debian-12", datetime.now(UTC) + timedelta(days=1)
        return VmSpec("v", self.place, "e2-small", image, 10, LABELS, METADATA, terminate_at=end)

    @property
    def bucket(self) -> BucketSpec:
        return BucketSpec(self.name, self.name, "us-central1", LABELS)


Prepared = Any
Make = Callable[[Cell], Awaitable[Prepared]]
Act = Callable[[Cell, Prepared], Awaitable[Any]]


@dataclass(frozen=True)
class Row:
    """One method, and the call of the port that leads to it.

    `requests`: how many of the method one undisturbed call makes. `gone_is_fine`: a 404 is an answer, no failure.
    `unnamed`: its resource has no name of the cell's. `alone`: nor has it the method for itself, so that it runs while
    no other row does. `streams`: its answer is long.
    """

    method: str
    why: Why
    act: Act
    make: Make
    requests: int = 1
    gone_is_fine: bool = False
    unnamed: bool = False
    alone: bool = False
    streams: bool = False


async def nothing(_: Cell) -> None:
    """No preparation."""


async def node(cell: Cell) -> None:
    """A node that is READY."""
    await cell.cloud.wait(await cell.cloud.create_node(cell.node), 60)


async def stopped_node(cell: Cell) -> None:
    await node(cell)
    await cell.cloud.wait(await cell.cloud.stop_node(cell.place, "n"), 60)


async def node_operation(cell: Cell) -> Operation:
    """A creation that is over: one look is enough."""
    started = await cell.cloud.create_node(cell.node)
    await cell.cloud.wait(started, 60)
    return started


async def vm(cell: Cell) -> Any:
    """An instance that runs, as it was read."""
    await cell.cloud.wait(await cell.cloud.create_vm(cell.vm), 60)
    return await cell.cloud.vm(cell.place, "v")


async def vm_operation(cell: Cell) -> Operation:
    started = await cell.cloud.create_vm(cell.vm)
    await cell.cloud.wait(started, 60)
    return started


async def bucket(cell: Cell) -> None:
    await cell.cloud.create_bucket(cell.bucket)


async def small(cell: Cell) -> Any:
    await bucket(cell)
    return await cell.cloud.store(cell.name).write("o", b"small", if_generation=0)


async def big(cell: Cell) -> Any:
    await bucket(cell)
    return await cell.cloud.store(cell.name).write("o", BIG, if_generation=0)


async def secret(cell: Cell) -> None:
    def make() -> None:
        path = f"/secretmanager/v1/projects/{cell.name}/secrets"
        cell.served.ask("POST", f"{path}?secretId=s", {"replication": {"automatic": {}}})
        cell.served.ask("POST", f"{path}/s:addVersion", {"payload": {"data": "eA=="}})

    await asyncio.to_thread(make)


async def network(cell: Cell) -> Subnetwork:
    found = await cell.cloud.around().subnetwork(cell.name, "us-central1", "default")
    assert found is not None
    return found


async def login(cell: Cell) -> str:
    """A key in our profile, of this cell alone."""
    key, soon = KEY.format(cell.name.replace("-", "")), datetime.now(UTC) + timedelta(hours=1)
    await cell.cloud.logins().login_as(cell.name, key, soon, soon)
    return key


async def read_whole(cell: Cell, _: Prepared) -> None:
    found = await cell.cloud.store(cell.name).read("o")
    assert found is None or found.data == BIG


async def download(cell: Cell, stat: Any) -> None:
    file = io.BytesIO()
    await cell.cloud.store(cell.name).download(stat, file)
    assert file.getvalue() == BIG


async def log_in(cell: Cell, _: Prepared) -> None:
    await login(cell)


async def log_in_longer(cell: Cell, key: str) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    await cell.cloud.logins().login_as(cell.name, key, later, later)


async def grant(cell: Cell, _: Prepared) -> None:
    member = "serviceAccount:a@b.iam.gserviceaccount.com"
    await cell.cloud.around().grant_on_bucket(cell.name, member, ["roles/storage.objectUser"])
    assert await cell.cloud.around().bucket_roles(cell.name, member) == {"roles/storage.objectUser"}
