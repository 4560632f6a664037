"""up: look, compare, act under the lease, look again. With nothing to change it only reads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tpuops.environment import Finding, refused
from tpuops.errors import AccessError, Busy, CloudError, Refused
from tpuops.lifecycle import refused as refusals
from tpuops.lifecycle.renamed import unrenamed
from tpuops.lifecycle.site import Site, holding
from tpuops.plan import Differs, Plan, Role, Verb, changes
from tpuops.resources import Node, Observed
from tpuops.stages.apply import Crew
from tpuops.stages.check import Questions, offered
from tpuops.stages.holders import parse
from tpuops.stages.look import look
from tpuops.stages.record import RUNNING, Records
from tpuops.stages.recover import make_missing, with_capacity


@dataclass(frozen=True, slots=True)
class Upped:
    """What `up` found to do, and what stands afterwards by a last look."""

    plan: Plan
    observed: Observed


async def planned(site: Site) -> tuple[Plan, Observed]:
    """What would change, and that it can be had. Reads only; what stands already is not asked for again.

    Raises:
        EnvironmentFileError: the file asks for what is not offered, or for what only `down` and `up` can change.
        Busy: the change would hurt a run that is open, or this file's run is open under another name.
    """
    plan, observed = await compared(site)
    if any(change.verb is Verb.DELETE for change in plan.effects):
        await _refuse_while_open(site, observed, "the file asks for no VM any more")
    await offered(plan, _questions(site))
    return plan, observed


def _questions(site: Site) -> Questions:
    def unanswered(method: str, why: str) -> None:
        site.journal.record("check.unanswered", method=method, why=why)

    def doubt(why: str) -> None:
        site.journal.record("check.doubt", why=why)

    neighbours = partial(unrenamed, site)
    return Questions(site.cloud, site.environment, site.desired, unanswered, doubt, neighbours)


async def compared(site: Site) -> tuple[Plan, Observed]:
    """What would change, from one look. Raises as `planned`."""
    try:
        observed = await look(site.cloud, site.desired)
    except Refused as error:
        if error.method != "storage.buckets.get" or site.environment.bucket.name is None:
            raise
        hint = "set `bucket.name` to a bucket of this project, or leave it out"
        raise refused(site.environment, [Finding(("bucket", "name"), error.message, hint)]) from error
    try:
        return changes(site.desired, observed), observed
    except Differs as error:
        await _refuse_while_open(site, observed, error.message)
        raise refused(site.environment, [Finding(error.field, error.message, error.hint)]) from error


async def _refuse_while_open(site: Site, observed: Observed, why: str) -> None:
    """Raises `Busy` where a run is open: it was started on what stands, and an edit must not pull that away."""
    if observed.bucket is None or observed.bucket.project_number != observed.project_number:
        return
    record = await Records(site.store, f"{site.prefix}run.json").read()
    if record is not None and record.state == RUNNING:
        raise Busy(
            f"run {record.run_id} is open on what stands, and the file was changed: {why}",
            hint=f"put the file back, or `{site.typed('stop')}` it first; nothing was touched",
        )


async def up(site: Site) -> Upped:
    """Provision what is missing. Raises the provisioning's error; what was made stands and the next `up` adopts it."""
    plan, observed = await planned(site)
    if not plan.effects:
        await _finished(site, plan, observed)
        return Upped(plan, observed)
    async with holding(site, "up", plan) as crew:
        await _forgetting(site, crew, await provision(site, crew))
        return Upped(plan, await look(site.cloud, site.desired))


async def _forgetting(site: Site, crew: Crew, node: Node | None) -> None:
    """Give the lease back to nobody where the run that it is kept for had another machine than `node`."""
    record = await Records(site.store, f"{site.prefix}run.json").read()
    if record is not None and (node is None or record.node_id != node.id):
        crew.forget()


async def _finished(site: Site, plan: Plan, observed: Observed) -> None:
    """Let go of the lease of an `up` that was killed when everything stood: else the machines would end themselves."""
    held = await site.store.read(f"{site.prefix}lease.json")
    if held is not None and parse(held.data).doing == "up":
        with suppress(Busy):  # that one lives, and lets go itself
            async with holding(site, "up", plan) as crew:
                await _forgetting(site, crew, observed.node)


async def provision(site: Site, crew: Crew) -> Node:
    """Look again under the lease, make what is missing, and return the node as a last look shows it.

    Raises:
        NoCapacity, Transient: still nothing after bounded waits; others at once.
    """
    plan, observed = await compared(site)
    for role, found in ((Role.NODE, observed.node), (Role.VM, observed.vm)):
        change = plan.of(role)
        if found is not None and change is not None and change.verb is Verb.KEEP:
            site.journal.record(f"{role}.stands", name=found.name, id=found.id)
    try:
        return await with_capacity(lambda: make_missing(site.desired, crew), crew)
    except (CloudError, AccessError) as error:
        await refusals.note(site, error)
        raise
