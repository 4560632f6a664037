"""The machines of an environment for a person who wants to look in: which stand, and one connection to one of them.

Changes one thing only, and says so: a machine of ours that does not list this machine's key is given it, for a day.
That needs no lease, since it hinders nobody; the API decides who may. Unlike a supervisor it does not wait for a
machine to become reachable: it says what is wrong and what to type. Only a key that was added just now is waited for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from tpuops.errors import Busy, TpuopsError, Unreachable
from tpuops.facts.entries import KEYS, Entry
from tpuops.lifecycle.site import Site, unfenced
from tpuops.remote.port import Agent, Host, NotConnected
from tpuops.resources import Node, Vm
from tpuops.stages import hostkeys
from tpuops.stages.access import list_on_node, list_on_vm, named, vm_at, why_not, worker_at

CONNECT_S = 20.0
NEW_KEY_S = 150.0
"""A key that appears after 55 s still works; Google's own tool gives up after 50 s (google-cloud.md 2.9)."""
LOOK_IN = timedelta(days=1)
SOON = timedelta(minutes=10)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Way:
    """To one machine: as a host, how long to knock, and whose it is."""

    host: Host
    machine: Node | Vm
    knock_s: float = CONNECT_S


async def found_node(site: Site) -> Node | None:
    """Our TPU under its name, in whatever state; None where there is none.

    Raises:
        Busy: one of that name stands there that is not ours.
    """
    spec = site.desired.node
    node = await site.cloud.node(spec.place, spec.name)
    if node is not None and not site.desired.owned.owns(node.labels):
        raise Busy(f"{spec.name} in {spec.place.zone} exists and is not ours", hint="choose another environment name")
    return node


async def ready_node(site: Site) -> Node:
    """Our TPU, ready to be logged in to.

    Raises:
        TpuopsError: it does not stand, or is in no state to be reached.
    """
    spec, node = site.desired.node, await found_node(site)
    if node is None:
        raise TpuopsError(f"there is no TPU {spec.name} in {spec.place.zone}", hint=f"{site.typed('up')} makes it")
    if not node.is_ready:
        raise TpuopsError(f"TPU {node.name} is {node.state}, not READY", hint=f"{site.typed('up')} brings it back")
    return node


async def way_to_worker(site: Site, node: Node, index: int) -> Way:
    """The way to one worker, with the host keys that the API tells and our key let in.

    Raises:
        TpuopsError: there is no such worker.
        Unreachable: it has not published its host keys.
    """
    if not 0 <= index < len(node.workers):
        raise TpuopsError(f"TPU {node.name} has no worker {index}", hint=_numbered(len(node.workers)))
    grown = hostkeys.grown(node, site.clock.now())
    told = await hostkeys.of_worker(site.cloud, node, index, site.route.told, grown)
    keys = _published(told, f"worker {index} of {node.name}")
    added = await _let_in(site, lambda ours, need: list_on_node(ours, need, unfenced(site), node))
    host = await worker_at(site.cloud, node, keys, site.route, index)
    return Way(host, node, NEW_KEY_S if added else CONNECT_S)


def _numbered(workers: int) -> str:
    """Which numbers a node's workers have, as people say it."""
    if not workers:
        return "it has none yet"
    return "it has one worker, 0" if workers == 1 else f"it has {workers} workers, 0 to {workers - 1}"


async def worker_host(site: Site, node: Node, index: int) -> Host:
    """One worker as a host, for whoever connects to several. Raises as `way_to_worker`."""
    return (await way_to_worker(site, node, index)).host


async def way_to_vm(site: Site) -> Way:
    """The way to the VM beside the TPU. Raises as `way_to_worker`, and `TpuopsError` where no VM runs."""
    spec = site.desired.vm
    if spec is None:
        raise TpuopsError(f"environment {site.environment.name} has no VM", hint=f"{site.typed('ssh')} goes to the TPU")
    vm = await site.cloud.vm(spec.place, spec.name)
    if vm is None or not site.desired.owned.owns(vm.labels):
        raise TpuopsError(f"there is no VM {spec.name} in {spec.place.zone}", hint=f"{site.typed('up')} makes it")
    if vm.state != "RUNNING":
        raise TpuopsError(f"VM {vm.name} is {vm.state}, not RUNNING", hint=f"{site.typed('up')} brings it back")
    told = await hostkeys.of_vm(site.cloud, vm, site.route.told, hostkeys.grown(vm, site.clock.now()))
    keys = _published(told, vm.name)
    added = await _let_in(site, lambda ours, need: list_on_vm(ours, need, unfenced(site), vm))
    return Way(vm_at(vm, keys, await named(site.route)), vm, NEW_KEY_S if added else CONNECT_S)


@asynccontextmanager
async def agent_on(site: Site, node: Node) -> AsyncIterator[Agent]:
    """One connection to worker 0, closed at the end.

    Raises as `way_to_worker`; where it is not let in, the error of `refusal` that says why.
    """
    way = await way_to_worker(site, node, 0)
    agent = await _knocked(site, way, site.connector.connect)
    try:
        yield agent
    finally:
        await agent.close()


async def knock(site: Site, way: Way) -> None:
    """Log in and leave at once. Raises as `agent_on`."""
    await _knocked(site, way, site.connector.probe)


async def _knocked(site: Site, way: Way, enter: Callable[[Host, float], Awaitable[Result]]) -> Result:
    try:
        return await enter(way.host, way.knock_s)
    except NotConnected as failed:
        raise await why_not(site.cloud, way.machine, site.route, failed, site.clock, way.knock_s) from failed


async def _let_in(site: Site, add: Callable[[Entry, datetime], Awaitable[bool]]) -> bool:
    """Have a machine list our key where it does not, or not for much longer; whether that changed anything."""
    if KEYS not in site.desired.node.metadata:  # OS Login knows the key, not the machine
        return False
    now = site.clock.now()
    ours = Entry(site.route.user, site.route.key, (now + LOOK_IN).replace(microsecond=0))
    return await add(ours, now + SOON)


def _published(keys: tuple[str, ...], name: str) -> tuple[str, ...]:
    if not keys:
        raise Unreachable(
            f"{name} has not published its host keys, and without them nobody is trusted",
            hint="a machine that has just started needs a minute; where policy forbids guest attributes, "
            "it must be able to write to the home bucket",
        )
    return keys
