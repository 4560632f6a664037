"""`GoogleCloud`: the port's `Cloud`, made of the three services. Whether Google answers is a matter of the endpoints.

What each change does after a lost reply is decided here, and always by looking: a creation under a deterministic name
is repeated only when the resource is not there, and what is there counts as ours only with our labels.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tpuops.clock import Clock
from tpuops.cloud import compute, tpu
from tpuops.cloud.calls import Call, Caller
from tpuops.cloud.compute import ComputeService
from tpuops.cloud.credentials import credentials
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.operations import GONE, Waiting
from tpuops.cloud.oslogin import OsLogin
from tpuops.cloud.port import Fence, Logins, ObjectStore, Operation, Vault, unasked
from tpuops.cloud.rest import Rest
from tpuops.cloud.retry import repeatedly
from tpuops.cloud.secrets import SecretManager
from tpuops.cloud.storage import BucketStore, StorageService, create_bucket
from tpuops.cloud.surroundings import Surroundings
from tpuops.cloud.threads import Once
from tpuops.cloud.tpu import TpuService
from tpuops.errors import CloudError, Conflict, NotFound, Transient
from tpuops.resources import Bucket, BucketSpec, Node, NodeSpec, Place, Vm, VmSpec

Result = TypeVar("Result")


class GoogleCloud:
    """Looking and changing, for one set of endpoints. Clients are built at their first call.

    `on_call` hears of each API call when it has ended, from the event loop's thread.
    """

    _fence: Fence = staticmethod(unasked)

    def __init__(self, endpoints: Endpoints, clock: Clock, on_call: Callable[[Call], None] = lambda call: None) -> None:
        self._caller = Caller(clock, on_call)
        who = Once(lambda: credentials(endpoints))  # one login, and one token, for all three
        self._tpu = TpuService(endpoints, who)
        self._compute = ComputeService(endpoints, who)
        self._storage = StorageService(endpoints, who)
        self._rest = Rest(endpoints, who)
        self._numbers: dict[str, str] = {}
        self._waiting = Waiting(self._tpu, self._compute, self._caller, self._state)

    def guarded(self, fence: Fence) -> GoogleCloud:
        """The same cloud, which asks `fence` before it repeats a change: time has passed since the change was let."""
        guarded = copy.copy(self)
        guarded._fence = fence
        return guarded

    def store(self, bucket: str) -> ObjectStore:
        """The objects of a bucket."""
        return BucketStore(self._storage, bucket, self._caller)

    def logins(self) -> Logins:
        """Our profile in OS Login."""
        return OsLogin(self._rest, self._caller)

    def around(self) -> Surroundings:
        """The calls about the project rather than its machines."""
        return Surroundings(self._rest, self._caller)

    def vault(self) -> Vault:
        """The secrets in Secret Manager."""
        return SecretManager(self._rest, self._caller)

    async def node(self, place: Place, name: str) -> Node | None:
        """The TPU slice of that name, or None."""
        return await self._read("tpu.nodes.get", tpu.path(place, name), lambda: self._tpu.get(place, name))

    async def vm(self, place: Place, name: str) -> Vm | None:
        """The instance of that name, or None."""
        return await self._read(
            "compute.instances.get", compute.path(place, name), lambda: self._compute.get(place, name)
        )

    async def bucket(self, name: str) -> Bucket | None:
        """The bucket, or None. Raises `Refused` where it is somebody else's."""
        return await self._read("storage.buckets.get", name, lambda: self._storage.bucket(name))

    async def project_number(self, project: str) -> str:
        """The project's number, digits only; asked for once, since a project keeps it for life."""
        if project not in self._numbers:
            number = await self._read("compute.projects.get", project, lambda: self._compute.project_number(project))
            if number is None:
                raise NotFound(f"there is no project {project}", method="compute.projects.get", resource=project)
            self._numbers[project] = number
        return self._numbers[project]

    async def accelerator_types(self, place: Place) -> frozenset[str]:
        """The accelerator types that the TPU service has in a zone."""
        at = tpu.parent(place)
        found = await self._read("tpu.acceleratorTypes.list", at, lambda: self._tpu.accelerator_types(place))
        return found or frozenset()

    async def runtime_versions(self, place: Place) -> frozenset[str]:
        """The runtime versions that the TPU service has in a zone."""
        at = tpu.parent(place)
        found = await self._read("tpu.runtimeVersions.list", at, lambda: self._tpu.runtime_versions(place))
        return found or frozenset()

    async def nodes_anywhere(self, project: str) -> tuple[Node, ...]:
        """Every TPU slice of the project, in all zones."""
        found = await self._read("tpu.nodes.list", project, lambda: self._tpu.everywhere(project))
        return found or ()

    async def vms_anywhere(self, project: str, labels: Mapping[str, str]) -> tuple[Vm, ...]:
        """Every instance of the project with these labels, in all zones."""
        function = lambda: self._compute.everywhere(project, labels)  # noqa: E731 - as the others, but too long a line
        return await self._read("compute.instances.aggregatedList", project, function) or ()

    async def host_keys(self, place: Place, node: str, worker: int) -> tuple[str, ...]:
        """A worker's host keys as `type base64` lines; empty until it has published them."""
        at = tpu.path(place, node)
        found = await self._read("tpu.nodes.getGuestAttributes", at, lambda: self._tpu.host_keys(place, node, worker))
        return found or ()

    async def vm_host_keys(self, place: Place, name: str) -> tuple[str, ...]:
        """A VM's host keys as `type base64` lines; empty until it has published them."""
        at = compute.path(place, name)
        found = await self._read(
            "compute.instances.getGuestAttributes", at, lambda: self._compute.host_keys(place, name)
        )
        return found or ()

    async def instance_of(self, place: Place, node: str, worker: int) -> str:
        """The name that a worker has as an instance; empty until it has published it."""
        at = tpu.path(place, node)
        ask = lambda: self._tpu.instance_of(place, node, worker)  # noqa: E731 - as the others, but too long a line
        return await self._read("tpu.nodes.getGuestAttributes", at, ask) or ""

    async def project_metadata(self, project: str) -> Mapping[str, str]:
        """What the project's own metadata says to all its machines."""
        found = await self._read("compute.projects.get", project, lambda: self._compute.project_metadata(project))
        return found or {}

    async def create_node(self, spec: NodeSpec) -> Operation:
        """Admit a slice. Raises `QuotaExceeded`, `NoCapacity`, `Conflict` where the name was taken before."""
        at = tpu.path(spec.place, spec.name)

        async def is_ours() -> bool:
            found = await self.node(spec.place, spec.name)
            return _adopted(found, spec)

        change = Operation("tpu", "", "create", at, spec.place)
        return await self._once("tpu.nodes.create", change, lambda: self._tpu.create(spec), is_ours)

    async def delete_node(self, place: Place, name: str) -> Operation | None:
        """Start deletion; None where it is already gone."""
        change = Operation("tpu", "", "delete", tpu.path(place, name), place)

        async def is_going() -> bool:
            found = await self.node(place, name)
            return found is None or found.state == "DELETING"

        try:
            return await self._once("tpu.nodes.delete", change, lambda: self._tpu.delete(place, name), is_going)
        except NotFound:
            return None

    async def stop_node(self, place: Place, name: str) -> Operation:
        """Stop a single-worker, non-spot node."""
        change = Operation("tpu", "", "stop", tpu.path(place, name), place)

        async def is_stopping() -> bool:
            found = await self.node(place, name)
            return found is not None and found.state in {"STOPPING", "STOPPED"}

        return await self._once("tpu.nodes.stop", change, lambda: self._tpu.stop(place, name), is_stopping)

    async def start_node(self, place: Place, name: str) -> Operation:
        """Start a stopped node; `wait` may end in `NoCapacity`."""
        change = Operation("tpu", "", "start", tpu.path(place, name), place)

        async def is_starting() -> bool:
            found = await self.node(place, name)
            return found is not None and found.state in {"STARTING", "READY"}

        return await self._once("tpu.nodes.start", change, lambda: self._tpu.start(place, name), is_starting)

    async def set_node_metadata(self, place: Place, name: str, metadata: Mapping[str, str]) -> Operation:
        """Replace the whole metadata map of a node; the same map twice is the same."""
        at = tpu.path(place, name)
        change = Operation("tpu", "", "update", at, place)

        async def is_set() -> bool:
            found = await self.node(place, name)
            return found is not None and dict(found.metadata) == dict(metadata)

        return await self._once(
            "tpu.nodes.patch", change, lambda: self._tpu.set_metadata(place, name, metadata), is_set
        )

    async def set_vm_metadata(self, vm: Vm, metadata: Mapping[str, str]) -> Operation:
        """Replace the whole metadata map of an instance. Raises `Conflict` where it changed since it was read."""
        change = Operation("compute", "", "update", compute.path(vm.place, vm.name), vm.place)

        async def is_set() -> bool:
            found = await self.vm(vm.place, vm.name)
            return found is not None and dict(found.metadata) == dict(metadata)

        return await self._once(
            "compute.instances.setMetadata", change, lambda: self._compute.set_metadata(vm, metadata), is_set
        )

    async def set_node_labels(self, place: Place, name: str, labels: Mapping[str, str]) -> Operation:
        """Replace all labels of a node; the same labels twice are the same."""
        change = Operation("tpu", "", "update", tpu.path(place, name), place)

        async def is_set() -> bool:
            found = await self.node(place, name)
            return found is not None and dict(found.labels) == dict(labels)

        return await self._once("tpu.nodes.patch", change, lambda: self._tpu.set_labels(place, name, labels), is_set)

    async def set_vm_labels(self, vm: Vm, labels: Mapping[str, str]) -> Operation:
        """Replace all labels of an instance. Raises `Conflict` where they changed since it was read."""
        change = Operation("compute", "", "update", compute.path(vm.place, vm.name), vm.place)

        async def is_set() -> bool:
            found = await self.vm(vm.place, vm.name)
            return found is not None and dict(found.labels) == dict(labels)

        return await self._once(
            "compute.instances.setLabels", change, lambda: self._compute.set_labels(vm, labels), is_set
        )

    async def create_vm(self, spec: VmSpec) -> Operation:
        """Admit an instance. Raises as `create_node`."""
        request_id = str(uuid.uuid4())
        change = Operation("compute", "", "create", compute.path(spec.place, spec.name), spec.place)

        async def is_ours() -> bool:
            return _adopted(await self.vm(spec.place, spec.name), spec)

        return await self._once(
            "compute.instances.insert", change, lambda: self._compute.insert(spec, request_id), is_ours
        )

    async def delete_vm(self, place: Place, name: str) -> Operation | None:
        """Start deletion; None where it is already gone."""
        request_id = str(uuid.uuid4())
        change = Operation("compute", "", "delete", compute.path(place, name), place)

        async def is_going() -> bool:
            found = await self.vm(place, name)
            return found is None or found.state in {"STOPPING", "DEPROVISIONING"}

        try:
            return await self._once(
                "compute.instances.delete", change, lambda: self._compute.delete(place, name, request_id), is_going
            )
        except NotFound:
            return None

    async def create_bucket(self, spec: BucketSpec) -> Bucket:
        """Create it. Raises `Conflict` where the name was taken before."""
        return await create_bucket(self._storage, spec, self._caller)

    async def wait(self, operation: Operation, timeout_s: float) -> None:
        """Return when the operation succeeded; raises what it failed with, or `Transient` at the time-out."""
        await self._waiting.until_done(operation, timeout_s)

    async def _read(self, method: str, resource: str, function: Callable[[], Result]) -> Result | None:
        """A read, repeated as needed; None where the resource is not there."""
        try:
            return await repeatedly(lambda: self._caller.ask(method, resource, function), self._caller.clock)
        except NotFound:
            return None

    async def _once(
        self, method: str, change: Operation, function: Callable[[], str], done: Callable[[], Any]
    ) -> Operation:
        """A change whose repetition would hurt: after a lost reply, `done` looks whether it took effect.

        It is judged by looking also where a *repeated* try is refused, since that refusal may be the first try's doing.
        An operation without a name tells `wait` to watch the resource itself.
        """
        lost = False

        async def ask() -> Operation:
            nonlocal lost
            if lost and await done():
                return change
            if lost:
                await self._fence()
            try:
                name = await self._caller.ask(method, change.resource, function)
            except Transient:
                lost = True
                raise
            except CloudError:
                if lost and await done():
                    return change
                raise
            return Operation(change.service, name, change.verb, change.resource, change.place)

        return await repeatedly(ask, self._caller.clock)

    async def _state(self, operation: Operation) -> str:
        """The state of an operation's resource as the API shows it now."""
        name = operation.resource.rpartition("/")[2]
        found: Node | Vm | None
        if operation.service == "tpu":
            found = await self.node(operation.place, name)
        else:
            found = await self.vm(operation.place, name)
        return found.state if found is not None else GONE


def _adopted(found: Node | Vm | None, spec: NodeSpec | VmSpec) -> bool:
    """Whether what stands is what a lost try of ours made.

    Raises:
        Conflict: the name is taken by something without our labels.
    """
    if found is None:
        return False
    if any(found.labels.get(key) != value for key, value in spec.labels.items()):
        raise Conflict(f"the name {spec.name} is taken by a resource that is not ours", resource=spec.name)
    return True
