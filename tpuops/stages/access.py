"""Access: from a READY node to a connected agent, with the host key known before the first connection.

The keys come over the authenticated API (`hostkeys`), so there is no trust on first use. While sshd starts, or
our key propagates, the API is asked what became of the node: an "SSH problem" may be a preemption.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tpuops.clock import Clock
from tpuops.cloud.port import CloudReader, Operation
from tpuops.desired import KEY_MARGIN
from tpuops.errors import AccessError, Conflict, TpuopsError, Transient, Unreachable
from tpuops.facts.entries import KEYS, OS_LOGIN, Entry, added, entry, is_os_login, of_key
from tpuops.remote.port import Agent, Barrier, Connector, Host, NotConnected
from tpuops.resources import Desired, Node, Place, Vm
from tpuops.stages import hostkeys
from tpuops.stages.apply import Crew
from tpuops.stages.refusal import Sight, told_apart

REACH_TIMEOUT_S = 600.0
TRY_S, LONGEST_TRY_S = 10.0, 40.0
"""How long one try may take: the second is for a machine that takes connections and is slow to greet."""
LOOK_S = 0.5
KEY_TIMEOUT_S = 120.0
KEY_TRIES = 5
SURELY_REFUSED_S = 120.0
"""Google's own tool gives a key 50 s to be in force (google-cloud.md 2.9); after this long no wait will help."""


@dataclass(frozen=True, slots=True)
class Route:
    """How machines are reached: the login user, the port of their sshd, and what carries the connection.

    `key` is our public key (`type base64`), `way` the file's `ssh.reach`. `login`: has OS Login know our key and says
    the user's name there, and `leave` has it forget the key; None where the user is the file's. `proxy` makes the argv
    of the program that carries a connection to an instance. `told` reads the host keys that machines tell in the home
    bucket, for where guest attributes are forbidden.
    """

    user: str
    port: int = 22
    key: str = ""
    way: str = "external"
    login: Callable[[], Awaitable[str]] | None = None
    leave: Callable[[], Awaitable[None]] | None = None
    proxy: Callable[[Place, str, int], tuple[str, ...]] | None = None
    told: hostkeys.Told | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The node is not what it was: `node` is what the API shows now (None: nothing)."""

    node: Node | None


async def let_in(desired: Desired, crew: Crew, node: Node) -> None:
    """Have our key open the node for as long as a run may take; other people's keys stay.

    One that is listed for long enough changes nothing. With OS Login there is nothing to list.
    """
    ours = entry(desired.node.metadata.get(KEYS, ""))
    if ours is not None and ours.expires is not None:
        await list_on_node(ours, ours.expires - KEY_MARGIN, crew, node)


@dataclass(frozen=True, slots=True)
class Keyring:
    """The metadata of one machine: how it is read (None: the machine is gone) and replaced whole."""

    name: str
    read: Callable[[], Awaitable[Mapping[str, str] | None]]
    write: Callable[[Mapping[str, str]], Awaitable[Operation]]


async def list_on_node(ours: Entry, need: datetime, crew: Crew, node: Node) -> bool:
    """Have the node list `ours` unless its key is in force until `need`; whether that changed anything."""

    async def read() -> Mapping[str, str] | None:
        found = await crew.cloud.node(node.place, node.name)
        return None if found is None or found.id != node.id else found.metadata

    ring = Keyring(node.name, read, lambda wanted: crew.cloud.set_node_metadata(node.place, node.name, wanted))
    return await _listed(ring, node.metadata, ours, need, crew)


async def list_on_vm(ours: Entry, need: datetime, crew: Crew, vm: Vm) -> bool:
    """The same of a VM, whose metadata has a fingerprint: nobody's change is lost."""
    seen = [vm]

    async def read() -> Mapping[str, str] | None:
        found = await crew.cloud.vm(vm.place, vm.name)
        if found is None or found.id != vm.id:
            return None
        seen.append(found)
        return found.metadata

    def write(wanted: Mapping[str, str]) -> Awaitable[Operation]:
        return crew.cloud.set_vm_metadata(seen[-1], wanted)

    return await _listed(Keyring(vm.name, read, write), vm.metadata, ours, need, crew)


async def _listed(ring: Keyring, metadata: Mapping[str, str], ours: Entry, need: datetime, crew: Crew) -> bool:
    """Write, and read again: a node's metadata has no fingerprint, so that of two writers the later one wins."""
    changed = False
    for _ in range(KEY_TRIES):
        if any(known.user == ours.user and known.opens(need) for known in of_key(metadata.get(KEYS, ""), ours.public)):
            return changed
        await crew.fence()
        crew.journal.record("node.key", name=ring.name, until=_until(ours))
        changed = True
        try:
            wanted = {**metadata, KEYS: added(metadata.get(KEYS, ""), ours)}
            await crew.cloud.wait(await ring.write(wanted), KEY_TIMEOUT_S)
        except Conflict:  # another change of it is under way
            await crew.clock.sleep(LOOK_S)
        found = await ring.read()
        if found is None:
            return changed  # it is gone: whoever connects next hears of that
        metadata = found
    raise Conflict(f"others keep changing the metadata of {ring.name}: our key does not stay", resource=ring.name)


def _until(ours: Entry) -> str:
    return "" if ours.expires is None else ours.expires.isoformat(timespec="minutes")


async def reach(
    cloud: CloudReader, connector: Connector, node: Node, route: Route, clock: Clock, index: int = 0
) -> Agent | Lost:
    """Connect to a worker of `node`, for as long as the node lives and at most `REACH_TIMEOUT_S` seconds.

    An API that does not answer is asked again for as long: mostly it is this machine whose network is away for a while.

    Raises:
        Unreachable: the node stayed READY, and no connection came in that time.
        Transient: the API did not answer in that time.
        AccessError: the machine shows another host key than the API tells, or lets our key in never.
    """
    end = clock.monotonic() + REACH_TIMEOUT_S
    while True:
        try:
            return await _reached(cloud, connector, node, route, clock, index)
        except Transient:
            if clock.monotonic() >= end:
                raise
        await clock.sleep(LOOK_S)


async def _reached(
    cloud: CloudReader, connector: Connector, node: Node, route: Route, clock: Clock, index: int
) -> Agent | Lost:
    began, try_s = clock.monotonic(), TRY_S
    failed: NotConnected | None = None
    problem = "it told its host keys neither in guest attributes nor in the home bucket"
    while clock.monotonic() - began < REACH_TIMEOUT_S:
        current = await cloud.node(node.place, node.name)
        if current is None or current.id != node.id or not current.is_ready:
            return Lost(current)
        late = clock.monotonic() - began > hostkeys.ABSENT_S
        keys = await hostkeys.of_worker(cloud, current, index, route.told, late)
        if keys:
            try:
                host = await worker_at(cloud, current, keys, route, index)
                return await connector.connect(host, try_s)
            except Unreachable as error:
                problem = error.message
                failed = error if isinstance(error, NotConnected) else None
                try_s = _next_try_s(try_s, failed)
        if failed is not None and failed.barrier is Barrier.KEY and clock.monotonic() - began > SURELY_REFUSED_S:
            why = await why_not(cloud, current, route, failed, clock, clock.monotonic() - began)
            if isinstance(why, AccessError):
                raise why from failed
        await clock.sleep(LOOK_S)
    if failed is not None:
        raise await why_not(cloud, node, route, failed, clock, REACH_TIMEOUT_S) from failed
    raise Unreachable(
        f"worker {index} of {node.name}, which is READY, could not be reached in {REACH_TIMEOUT_S:.0f} s: {problem}",
        hint="check the firewall rule for tcp:22; where policy forbids guest attributes, it must write to the bucket",
    )


def _next_try_s(try_s: float, failed: NotConnected | None) -> float:
    """Longer, where a connection was taken and nothing came of it."""
    slow = failed is not None and failed.barrier in {Barrier.BROKEN, Barrier.PROXY}
    return min(try_s * 2, LONGEST_TRY_S) if slow else try_s


async def worker_at(cloud: CloudReader, node: Node, keys: tuple[str, ...], route: Route, index: int = 0) -> Host:
    """One worker as a host, with the user's name from OS Login and the way through a proxy where the route says so."""
    instance = await hostkeys.instance_of(cloud, node, index, route.told) if route.proxy is not None else ""
    return host_at(node, keys, await named(route), index, instance)


async def named(route: Route) -> Route:
    """The route with the user's name that OS Login gives."""
    return route if route.login is None else replace(route, user=await route.login())


def host_at(node: Node, keys: tuple[str, ...], route: Route, index: int = 0, instance: str = "") -> Host:
    """One worker of `node` as a host to connect to; `keys` are that worker's own, `instance` is its own name."""
    worker = node.workers[index]
    return Host(
        name=f"{node.name}-{worker.index}",
        address=worker.external_ip or worker.internal_ip,
        user=route.user,
        host_keys=keys,
        port=route.port,
        machine=identity(node),
        proxy=() if route.proxy is None else route.proxy(node.place, instance, route.port),
    )


def vm_at(vm: Vm, keys: tuple[str, ...], route: Route) -> Host:
    """The VM as a host to connect to."""
    return Host(
        name=vm.name,
        address=vm.external_ip or vm.internal_ip,
        user=route.user,
        host_keys=keys,
        port=route.port,
        machine=identity(vm),
        proxy=() if route.proxy is None else route.proxy(vm.place, vm.name, route.port),
    )


def identity(machine: Node | Vm) -> str:
    """What tells a machine from an earlier one of its name: its id and when it was created."""
    return f"{machine.id} {machine.created.isoformat() if machine.created else ''}".strip()


async def why_not(
    cloud: CloudReader, machine: Node | Vm, route: Route, failed: NotConnected, clock: Clock, waited_s: float
) -> TpuopsError:
    """Look once more at the machine that could not be connected to, and say what is the matter."""
    now: Node | Vm | None
    if isinstance(machine, Node):
        now = await cloud.node(machine.place, machine.name)
    else:
        now = await cloud.vm(machine.place, machine.name)
    gone = now is None or now.id != machine.id
    seen = machine if now is None or gone else now
    return told_apart(
        Sight(
            name=machine.name,
            address=_address(seen),
            user=route.user,
            barrier=failed.barrier,
            said=failed.evidence,
            waited_s=waited_s,
            state="" if gone else seen.state,
            runs=not gone and seen.state in {"READY", "RUNNING"},
            made=seen.created,
            now=clock.now(),
            network=seen.link.network if seen.link is not None else "default",
            project=seen.place.project,
            way=route.way,
            login="metadata" if route.login is None else "os-login",
            entries=of_key(seen.metadata.get(KEYS, ""), route.key),
            os_login=failed.barrier is Barrier.KEY and await os_login(cloud, seen),
        )
    )


async def os_login(cloud: CloudReader, machine: Node | Vm) -> bool:
    """Whether OS Login is in force on a machine: by its own metadata, else by the project's."""
    own = machine.metadata.get(OS_LOGIN)
    if own is None:
        own = (await cloud.project_metadata(machine.place.project)).get(OS_LOGIN, "")
    return is_os_login(own)


def _address(machine: Node | Vm) -> str:
    if isinstance(machine, Vm):
        return machine.external_ip or machine.internal_ip
    worker = machine.workers[0] if machine.workers else None
    return "" if worker is None else worker.external_ip or worker.internal_ip
