"""ssh and attach: what OpenSSH is given to bring a person to a machine, once it is known that it lets us in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuops.errors import TpuopsError
from tpuops.lifecycle.machine import Way, agent_on, knock, ready_node, way_to_vm, way_to_worker
from tpuops.lifecycle.site import Site
from tpuops.remote import openssh
from tpuops.remote.port import Host

ATTACH = ("tmux", "attach", "-t", "=tpuops")
"""The agent's session (templates/worker/agent/places.py)."""


@dataclass(frozen=True, slots=True)
class Door:
    """OpenSSH's command line and where it leads."""

    argv: tuple[str, ...]
    host: Host


async def shell(site: Site, *, worker: int = 0, vm: bool = False, command: str = "") -> Door:
    """A login on a worker or on the VM; `command` is a line for the shell there. Raises as `agent_on`."""
    way = await way_to_vm(site) if vm else await way_to_worker(site, await ready_node(site), worker)
    await knock(site, way)
    return _door(site, way, (command,) if command else (), terminal=False)


async def attach(site: Site) -> Door:
    """The tmux session of the training.

    Raises:
        TpuopsError: nothing trains there.
    """
    node = await ready_node(site)
    async with agent_on(site, node) as agent:
        status = await agent.status()
    if not status.alive:
        what = f"attempt {status.attempt} of run {status.run_id} has ended" if status.run_id else "no run was started"
        tip = f"{site.typed('logs')} shows what it said" if status.run_id else f"{site.typed('train')} starts one"
        raise TpuopsError(f"nothing trains on {node.name}: {what}", hint=tip)
    return _door(site, await way_to_worker(site, node, 0), ATTACH, terminal=True)


def _door(site: Site, way: Way, command: Sequence[str], *, terminal: bool) -> Door:
    config = openssh.files(way.host, site.folder / "id_ed25519", site.folder / "ssh")
    return Door(openssh.argv(config, way.host, command, terminal=terminal), way.host)
