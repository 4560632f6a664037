"""The machines of an environment for a person who wants to look in: which stand, and one connection to one of them.

Changes nothing. Unlike a supervisor it does not wait for a machine to become reachable: it says what is wrong and what
to type.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tpuops.errors import AccessError, Busy, TpuopsError, Unreachable
from tpuops.lifecycle.site import Site
from tpuops.remote.port import Agent, Host
from tpuops.resources import Node
from tpuops.stages.access import host_at

CONNECT_S = 20.0


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


async def worker_host(site: Site, node: Node, index: int) -> Host:
    """One worker as a host, with the host keys that the API tells.

    Raises:
        TpuopsError: there is no such worker.
        AccessError: this machine's key is not among the ones the node lets in.
        Unreachable: it has not published its host keys.
    """
    if not 0 <= index < len(node.workers):
        last = len(node.workers) - 1
        raise TpuopsError(f"TPU {node.name} has no worker {index}", hint=f"its workers are 0 to {last}")
    _check_key(site, node.name, node.metadata.get("ssh-keys", ""))
    keys = await site.cloud.host_keys(node.place, node.name, index)
    return host_at(node, _published(keys, f"worker {index} of {node.name}"), site.route, index)


async def vm_host(site: Site) -> Host:
    """The VM beside the TPU as a host. Raises as `worker_host`, and `TpuopsError` where no VM runs."""
    spec = site.desired.vm
    if spec is None:
        raise TpuopsError(f"environment {site.environment.name} has no VM", hint=f"{site.typed('ssh')} goes to the TPU")
    vm = await site.cloud.vm(spec.place, spec.name)
    if vm is None or not site.desired.owned.owns(vm.labels):
        raise TpuopsError(f"there is no VM {spec.name} in {spec.place.zone}", hint=f"{site.typed('up')} makes it")
    if vm.state != "RUNNING":
        raise TpuopsError(f"VM {vm.name} is {vm.state}, not RUNNING", hint=f"{site.typed('up')} brings it back")
    keys = _published(await site.cloud.vm_host_keys(vm.place, vm.name), vm.name)
    return Host(vm.name, vm.external_ip or vm.internal_ip, site.route.user, keys, site.route.port)


@asynccontextmanager
async def agent_on(site: Site, node: Node) -> AsyncIterator[Agent]:
    """One connection to worker 0, closed at the end. Raises as `worker_host`."""
    host = await worker_host(site, node, 0)
    try:
        agent = await site.connector.connect(host, CONNECT_S)
    except Unreachable as error:
        raise Unreachable(
            f"{node.name} is READY but does not let us in: {error.message}",
            evidence=error.evidence,
            hint="a machine that has just started may need a minute; else look at the firewall rule for tcp:22",
        ) from error
    try:
        yield agent
    finally:
        await agent.close()


def _published(keys: tuple[str, ...], name: str) -> tuple[str, ...]:
    if not keys:
        raise Unreachable(
            f"{name} has not published its host keys, and without them nobody is trusted",
            hint="a machine that has just started needs a minute; else guest attributes may be forbidden by policy",
        )
    return keys


def _check_key(site: Site, name: str, listed: str) -> None:
    """The node lets in the key of the machine that made it; another machine has another key."""
    ours = site.desired.node.metadata.get("ssh-keys", "").split()
    if len(ours) > 1 and listed and ours[1] not in listed.split():
        raise AccessError(
            f"{name} does not know this machine's key",
            evidence=[f"it was made from another machine or account; the key here is {site.folder / 'id_ed25519'}"],
            hint=f"{site.typed('train')} or {site.typed('run')} here adds this key",
        )
