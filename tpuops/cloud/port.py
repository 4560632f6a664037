"""What the floors above may ask of a cloud: four narrow protocols.

`CloudReader` cannot change anything. `Cloud` adds the changes; a change is *admitted* by its method and *finished* by
`wait`, because creation of a TPU is refused for lack of capacity up to a minute after it was admitted. `ObjectStore` is
the home bucket: every write is conditional, so that it can carry a lock.

Errors raised by all methods: `Transient` (after bounded retries where the call is idempotent), `Refused`,
`AccessError`; others as stated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Protocol

from tpuops.resources import Bucket, BucketSpec, Node, NodeSpec, Place, Vm, VmSpec

if TYPE_CHECKING:
    from tpuops.cloud.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Operation:
    """A change under way: `service` is tpu or compute, `name` what the service calls the operation."""

    service: str
    name: str
    verb: str
    resource: str
    place: Place


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """One object's listing. `md5` is base64, as the API gives it; times are the server's."""

    name: str
    generation: int
    size: int
    md5: str
    updated: datetime


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object with its bytes. `server_now` is the reply's own Date: ages are measured by one clock."""

    stat: ObjectStat
    data: bytes
    server_now: datetime

    @property
    def age_s(self) -> float:
        """Seconds since it was written; a Date has whole ones only, so one that was written just now is 0 old."""
        return max(0.0, (self.server_now - self.stat.updated).total_seconds())


class CloudReader(Protocol):
    """Looking, nothing else."""

    def store(self, bucket: str) -> ObjectStore:
        """The objects of a bucket; asks nothing."""

    def around(self) -> Surroundings:
        """The calls about the project rather than its machines."""

    async def node(self, place: Place, name: str) -> Node | None:
        """The TPU slice of that name, or None."""

    async def vm(self, place: Place, name: str) -> Vm | None:
        """The instance of that name, or None."""

    async def bucket(self, name: str) -> Bucket | None:
        """The bucket, or None. Raises `Refused` where it is somebody else's."""

    async def project_number(self, project: str) -> str:
        """The project's number, digits only."""

    async def accelerator_types(self, place: Place) -> frozenset[str]:
        """The accelerator types that the TPU service has in a zone."""

    async def runtime_versions(self, place: Place) -> frozenset[str]:
        """The runtime versions that the TPU service has in a zone."""

    async def nodes_anywhere(self, project: str) -> tuple[Node, ...]:
        """Every TPU slice of the project, in all zones, whoever owns it."""

    async def vms_anywhere(self, project: str, labels: Mapping[str, str]) -> tuple[Vm, ...]:
        """Every instance of the project that carries these labels, in all zones."""

    async def host_keys(self, place: Place, node: str, worker: int) -> tuple[str, ...]:
        """`type base64` lines of a worker's SSH host keys from guest attributes; empty until it has published them."""

    async def vm_host_keys(self, place: Place, name: str) -> tuple[str, ...]:
        """The same of a VM."""

    async def instance_of(self, place: Place, node: str, worker: int) -> str:
        """The name that a worker has as an instance, from guest attributes; empty until it has published it."""

    async def project_metadata(self, project: str) -> Mapping[str, str]:
        """What the project's own metadata says to all its machines."""


Fence = Callable[[], Awaitable[None]]
"""Stands before a change: raises where we may not make it any more."""


async def unasked() -> None:
    """No fence."""


class Cloud(CloudReader, Protocol):
    """Looking and changing."""

    def guarded(self, fence: Fence) -> Cloud:
        """The same, which asks `fence` before it repeats a change."""

    def store(self, bucket: str) -> ObjectStore:
        """The objects of a bucket."""

    async def create_node(self, spec: NodeSpec) -> Operation:
        """Admit a slice. Raises `QuotaExceeded`, `Conflict` where the name is taken, `NoCapacity`."""

    async def delete_node(self, place: Place, name: str) -> Operation | None:
        """Start deletion; None where it is already gone."""

    async def stop_node(self, place: Place, name: str) -> Operation:
        """Stop a single-worker, non-spot node."""

    async def start_node(self, place: Place, name: str) -> Operation:
        """Start a stopped node; `wait` may end in `NoCapacity`."""

    async def set_node_metadata(self, place: Place, name: str, metadata: Mapping[str, str]) -> Operation:
        """Replace the whole metadata map: there is no fingerprint, so read just before."""

    async def set_vm_metadata(self, vm: Vm, metadata: Mapping[str, str]) -> Operation:
        """Replace the whole metadata map. Raises `Conflict` where it is not as `vm` was read any more."""

    async def set_node_labels(self, place: Place, name: str, labels: Mapping[str, str]) -> Operation:
        """Replace all labels: there is no fingerprint, so read just before. Raises `Conflict` in a state without it."""

    async def set_vm_labels(self, vm: Vm, labels: Mapping[str, str]) -> Operation:
        """Replace all labels. Raises `Conflict` where they are not as `vm` was read any more."""

    async def create_vm(self, spec: VmSpec) -> Operation:
        """Admit an instance. Raises as `create_node`."""

    async def delete_vm(self, place: Place, name: str) -> Operation | None:
        """Start deletion; None where it is already gone."""

    async def create_bucket(self, spec: BucketSpec) -> Bucket:
        """Create it (uniform access, no public access, no soft delete). Raises `Conflict` where the name is taken."""

    async def wait(self, operation: Operation, timeout_s: float) -> None:
        """Return when the operation succeeded. Raises what it failed with, or `Transient` at the time-out."""


class Logins(Protocol):
    """The caller's own profile in OS Login."""

    async def login_as(self, project: str, public_key: str, need: datetime, expires: datetime) -> str:
        """Have the profile know a key until `need`, else until `expires` from now on; the user's name on machines."""

    async def login_name(self, public_key: str) -> tuple[str, bool]:
        """The user's name on machines, and whether the profile knows the key now. Changes nothing."""

    async def forget_login(self, public_key: str) -> None:
        """Take the key out of the profile; one that is not there is fine."""


class Vault(Protocol):
    """Values that are handed out one by one."""

    async def secret(self, version: str) -> bytes:
        """The bytes of `projects/P/secrets/S/versions/V`. Raises `NotFound`, and `Refused` for a disabled version."""


class ObjectStore(Protocol):
    """Objects of one bucket."""

    async def read(self, name: str) -> StoredObject | None:
        """The object with its bytes, or None."""

    async def write(self, name: str, data: bytes, *, if_generation: int | None) -> ObjectStat:
        """Write; `if_generation=0` only where absent, n only over generation n, None in any case. Raises `Conflict`."""

    async def delete(self, name: str, *, if_generation: int | None = None) -> None:
        """Delete; an absent object is fine. Raises `Conflict` where the generation moved on."""

    async def download(self, stat: ObjectStat, file: BinaryIO) -> None:
        """This generation's bytes into `file`, from its start on, without holding them all in memory.

        Raises `NotFound` where that generation is not there any more.
        """

    async def list(self, prefix: str) -> tuple[ObjectStat, ...]:
        """Every object below `prefix`, all pages, by name."""
