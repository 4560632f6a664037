"""Recover: carry out one decision so that a machine is there for the next attempt.

Evidence and outputs are harvested first wherever the machine still answers. Restarting touches only the process;
stopping and deleting were corroborated by whoever decided. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from tpuops.cloud.port import ObjectStore
from tpuops.diagnosis.verdict import Budgets, Decision, Move
from tpuops.environment import Environment
from tpuops.errors import AccessError, CloudError, Conflict, NoCapacity, RemoteError, Transient
from tpuops.plan import changes
from tpuops.remote.port import Agent
from tpuops.resources import Desired, Node
from tpuops.stages.apply import Crew, delete_node, make_machines, stop_node
from tpuops.stages.look import look

Result = TypeVar("Result")

CAPACITY_WAITS_S = (5.0, 10.0, 20.0, 40.0)


def budgets_of(environment: Environment) -> Budgets:
    """The file's limits on recoveries, and its word for single classes."""
    recovery = environment.recovery
    return Budgets(recovery.limits, overrides={name: Move(word) for name, word in recovery.actions.items()})


async def carry_out(decision: Decision, node: Node, desired: Desired, crew: Crew) -> Node:
    """Bring about what the decision says and return the node the next attempt runs on.

    Raises:
        NoCapacity, Transient: no machine after the waits of `CAPACITY_WAITS_S`.
        Busy: the lease is lost.
    """
    if decision.after_s:
        await crew.clock.sleep(decision.after_s)
    if decision.move is Move.STOP_START:
        await with_capacity(lambda: _stopped(desired, crew, decision.reason), crew)
        return await with_capacity(lambda: make_missing(desired, crew), crew)
    if decision.move is Move.RECREATE:
        return await with_capacity(lambda: _replaced(node, desired, crew, decision.reason), crew)
    return node


async def _stopped(desired: Desired, crew: Crew, reason: str) -> None:
    """Stop the node. One that was stopped or taken away meanwhile is left to the look that follows."""
    with suppress(NoCapacity, Conflict):
        await stop_node(desired, crew, reason)


async def _replaced(old: Node, desired: Desired, crew: Crew, reason: str) -> Node:
    """Delete `old` unless that was done before, and make what is missing."""
    found = await crew.cloud.node(desired.node.place, desired.node.name)
    if found is not None and found.id == old.id:
        await delete_node(desired, crew, reason)
    return await make_missing(desired, crew)


async def make_missing(desired: Desired, crew: Crew) -> Node:
    """Look, compare and make what is missing, once."""
    plan = changes(desired, await look(crew.cloud, desired))
    return await make_machines(plan, desired, crew)


async def with_capacity(make: Callable[[], Awaitable[Result]], crew: Crew) -> Result:
    """Try again while the cloud has nothing to give or stumbles; each wait is longer, and their number is bounded."""
    for wait_s in CAPACITY_WAITS_S:
        try:
            return await make()
        except (NoCapacity, Transient) as error:
            crew.journal.record("capacity.wait", wait_s=wait_s, why=error.message)
        await crew.clock.sleep(wait_s)
    return await make()


async def harvest(
    agent: Agent, store: ObjectStore, prefix: str, crew: Crew, known: Mapping[str, bytes] | None = None
) -> None:
    """Save what explains the failure; `known` is what the machine said of it already. What cannot be read or saved is
    said, and stops nothing."""
    try:
        evidence = known or await agent.evidence()
        for name, data in evidence.items():
            await store.write(f"{prefix}{name}", data, if_generation=None)
    except (RemoteError, CloudError, AccessError) as error:
        crew.journal.record("harvest.incomplete", why=error.message)
