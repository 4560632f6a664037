"""up: look, compare, act under the lease, look again. With nothing to change it only reads."""

from __future__ import annotations

from dataclasses import dataclass

from tpuops.lifecycle.site import Site, holding
from tpuops.plan import Plan, Role, Verb, changes
from tpuops.resources import Node, Observed
from tpuops.stages.apply import Crew
from tpuops.stages.look import look
from tpuops.stages.recover import make_missing, with_capacity


@dataclass(frozen=True, slots=True)
class Upped:
    """What `up` found to do, and what stands afterwards by a last look."""

    plan: Plan
    observed: Observed


async def planned(site: Site) -> tuple[Plan, Observed]:
    """What would change. Reads only."""
    observed = await look(site.cloud, site.desired)
    return changes(site.desired, observed), observed


async def up(site: Site) -> Upped:
    """Provision what is missing. Raises the provisioning's error; what was made stands and the next `up` adopts it."""
    plan, observed = await planned(site)
    if not plan.effects:
        return Upped(plan, observed)
    async with holding(site, "up", plan) as crew:
        await provision(site, crew)
        return Upped(plan, await look(site.cloud, site.desired))


async def provision(site: Site, crew: Crew) -> Node:
    """Look again under the lease, make what is missing, and return the node as a last look shows it.

    Raises:
        NoCapacity, Transient: still nothing after bounded waits; others at once.
    """
    plan, observed = await planned(site)
    for role, found in ((Role.NODE, observed.node), (Role.VM, observed.vm)):
        change = plan.of(role)
        if found is not None and change is not None and change.verb is Verb.KEEP:
            site.journal.record(f"{role}.stands", name=found.name, id=found.id)
    return await with_capacity(lambda: make_missing(site.desired, crew), crew)
