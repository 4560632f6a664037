"""ssh and attach: what OpenSSH is given to bring a person to a machine. The machine itself is not touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuops.errors import TpuopsError
from tpuops.lifecycle.machine import agent_on, ready_node, vm_host, worker_host
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
    """A login on a worker or on the VM; `command` is a line for the shell there. Raises as `worker_host`."""
    host = await vm_host(site) if vm else await worker_host(site, await ready_node(site), worker)
    return _door(site, host, (command,) if command else (), terminal=False)


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
    return _door(site, await worker_host(site, node, 0), ATTACH, terminal=True)


def _door(site: Site, host: Host, command: Sequence[str], *, terminal: bool) -> Door:
    config = openssh.files(host, site.folder / "id_ed25519", site.folder / "ssh")
    return Door(openssh.argv(config, host, command, terminal=terminal), host)
