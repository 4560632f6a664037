"""Access: from a READY node to a connected agent, with the host key known before the first connection.

The keys come over the authenticated API (guest attributes), so there is no trust on first use. While sshd starts, or
our key propagates, the API is asked what became of the node: an "SSH problem" may be a preemption.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuops.clock import Clock
from tpuops.cloud.port import CloudReader
from tpuops.errors import Unreachable
from tpuops.remote.port import Agent, Connector, Host
from tpuops.resources import Desired, Node
from tpuops.stages.apply import Crew

REACH_TIMEOUT_S = 600.0
TRY_S = 10.0
LOOK_S = 0.5
KEYS = "ssh-keys"
KEY_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Route:
    """How machines are reached: the login user and the port of their sshd."""

    user: str
    port: int = 22


@dataclass(frozen=True, slots=True)
class Lost:
    """The node is not what it was: `node` is what the API shows now (None: nothing)."""

    node: Node | None


async def let_in(desired: Desired, crew: Crew, node: Node) -> None:
    """Add our key to a node that another machine made; other people's keys stay. One that is there changes nothing."""
    ours, there = desired.node.metadata[KEYS], node.metadata.get(KEYS, "")
    if ours in there.splitlines():
        return
    await crew.fence()
    crew.journal.record("node.key", name=node.name)
    wanted = {**node.metadata, KEYS: f"{there}\n{ours}".strip()}
    await crew.cloud.wait(await crew.cloud.set_node_metadata(node.place, node.name, wanted), KEY_TIMEOUT_S)


async def reach(cloud: CloudReader, connector: Connector, node: Node, route: Route, clock: Clock) -> Agent | Lost:
    """Connect to worker 0 of `node`, for as long as the node lives and at most `REACH_TIMEOUT_S` seconds.

    Raises:
        Unreachable: the node stayed READY, and no connection came in that time.
        AccessError: the machine shows another host key than the API tells.
    """
    deadline = clock.monotonic() + REACH_TIMEOUT_S
    problem = "it never published its host keys"
    while clock.monotonic() < deadline:
        current = await cloud.node(node.place, node.name)
        if current is None or current.id != node.id or not current.is_ready:
            return Lost(current)
        keys = await cloud.host_keys(node.place, node.name, 0)
        if keys:
            try:
                return await connector.connect(host_at(current, keys, route), TRY_S)
            except Unreachable as error:
                problem = error.message
        await clock.sleep(LOOK_S)
    raise Unreachable(
        f"{node.name} is READY but could not be reached in {REACH_TIMEOUT_S:.0f} s: {problem}",
        hint="check the firewall rule for tcp:22 and that guest attributes are not forbidden by policy",
    )


def host_at(node: Node, keys: tuple[str, ...], route: Route, index: int = 0) -> Host:
    """One worker of `node` as a host to connect to; `keys` are that worker's own."""
    worker = node.workers[index]
    return Host(
        name=f"{node.name}-{worker.index}",
        address=worker.external_ip or worker.internal_ip,
        user=route.user,
        host_keys=keys,
        port=route.port,
    )
