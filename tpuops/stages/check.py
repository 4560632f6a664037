"""Check: what must hold before anything is called, started or made, told with the line of the file it comes from.

The file's own rules live in `environment.rules`; here stands what depends on what a command is about to do, and on what
the cloud says when asked: one read a question, all in flight together, and only where something is to be made.
Nothing here changes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tpuops.cloud.port import CloudReader
from tpuops.environment import Environment, Finding, refused
from tpuops.environment.problems import Path, did_you_mean, dotted, line_of
from tpuops.errors import AccessError, CloudError, QuotaExceeded, Transient
from tpuops.facts import catalogue
from tpuops.plan import Plan, Role, Verb
from tpuops.resources import Desired, Node, Vm, VmSpec
from tpuops.stages import quota, signatures
from tpuops.stages.quota import Shortage

Answer = TypeVar("Answer")

ACCELERATOR = ("tpu", "accelerator")


def trainable(environment: Environment) -> None:
    """Calls nothing.

    Raises:
        EnvironmentFileError: `train` and `run` cannot do yet what the file asks for, or a signature file is not sound.
    """
    signatures.own(environment)
    found = list(_workers(environment))
    if found:
        raise refused(environment, found)


def _workers(environment: Environment) -> Iterator[Finding]:
    known = catalogue.accelerator(environment.tpu.accelerator)
    if known is not None and not known.single_host:
        yield Finding(
            ACCELERATOR,
            f"{known.type} has {known.workers} workers; training on more than one is not built yet",
            "for training take a type with one worker, such as v3-8; `plan`, `up`, `status` and `down` work with this",
        )


async def _unheard(_nodes: tuple[Node, ...]) -> None:
    """Nobody asked about them."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Whom to ask about what, and who hears of a question that nobody answered, and of a doubt.

    `neighbours` hears which slices the project has, and may object by raising.
    """

    cloud: CloudReader
    environment: Environment
    desired: Desired
    unanswered: Callable[[str, str], None]
    doubt: Callable[[str], None]
    neighbours: Callable[[tuple[Node, ...]], Awaitable[None]] = _unheard


@dataclass(frozen=True, slots=True)
class Objections:
    """What stands against making one resource."""

    findings: tuple[Finding, ...] = ()
    shortage: Shortage | None = None
    field: Path = ()


async def offered(plan: Plan, ask: Questions) -> None:
    """What the plan makes is there to be had, and does not stand elsewhere already.

    A question that the service cannot answer now is told to `unanswered`; the creation itself will answer it. So is one
    about quota that this login may not ask: few are given that permission.

    Raises:
        EnvironmentFileError: with every objection and the line of its field.
        QuotaExceeded: the project's own limits leave no room.
    """
    made = {change.role for change in plan.changes if change.verb in {Verb.CREATE, Verb.REPLACE}}
    asked = [question(ask) for role, question in ((Role.NODE, node_offer), (Role.VM, vm_offer)) if role in made]
    answers = await asyncio.gather(*asked)
    found = [finding for answer in answers for finding in answer.findings]
    if found:
        raise refused(ask.environment, found)
    for answer in answers:
        if answer.shortage is not None and answer.shortage.certain:
            raise _too_little(ask.environment, answer.field, answer.shortage)
        if answer.shortage is not None:
            ask.doubt(answer.shortage.words)


async def node_offer(ask: Questions) -> Objections:
    """What stands against making the slice. Raises what the questions raise, but for passing faults."""
    spec, around = ask.desired.node, ask.cloud.around()
    project = spec.place.project
    accelerator, runtime, nodes, limits, holdings = await asyncio.gather(
        _answered(_accelerator(ask), ask),
        _answered(_runtime(ask), ask),
        _answered(ask.cloud.nodes_anywhere(project), ask),
        _noted("cloudquotas.quotaInfos.list", around.tpu_limits(spec.place), ask),
        _noted("tpu.queuedResources.list", around.holdings(project), ask),
    )
    await ask.neighbours(nodes or ())
    elsewhere = _elsewhere(ask, [node for node in nodes or () if node.name == spec.name], spec.place.zone)
    known = nodes is not None and limits is not None
    shortage = quota.of_slice(spec, limits or (), nodes or (), holdings or ()) if known else None
    return Objections(_said(accelerator, runtime, elsewhere), shortage, ACCELERATOR)


async def vm_offer(ask: Questions) -> Objections:
    """What stands against making the machine beside it. Raises as `node_offer`."""
    spec, around = ask.desired.vm, ask.cloud.around()
    if spec is None:
        return Objections()
    vcpus, limits, vms = await asyncio.gather(
        _answered(_vcpus(ask, spec), ask),
        _noted("compute.regions.get", around.region_limits(spec.place), ask),
        _answered(ask.cloud.vms_anywhere(spec.place.project, ask.desired.owned.labels), ask),
    )
    lacking = vcpus if isinstance(vcpus, Finding) else None
    shortage = quota.of_vm(spec, vcpus, limits) if isinstance(vcpus, int) and limits is not None else None
    elsewhere = _elsewhere(ask, vms or (), spec.place.zone)
    return Objections(_said(lacking, elsewhere), shortage, ("vm", "machine_type"))


def _said(*answers: Finding | None) -> tuple[Finding, ...]:
    return tuple(answer for answer in answers if answer is not None)


def _too_little(environment: Environment, field: Path, shortage: Shortage) -> QuotaExceeded:
    """The refusal, with the line that asks for what the quota does not give."""
    error = QuotaExceeded(
        shortage.words,
        hint="delete what holds it, take another zone, type or provisioning, or ask for more in the Cloud console "
        "(IAM & Admin, Quotas)",
    )
    where = line_of(field, environment.lines)
    error.evidence = (f"{environment.path.name}:{where}: {dotted(field)}: {shortage.what}",)
    return error


async def _answered(question: Awaitable[Answer], ask: Questions) -> Answer | None:
    try:
        return await question
    except Transient as error:
        ask.unanswered(error.method, error.message)
        return None


async def _noted(method: str, question: Awaitable[Answer], ask: Questions) -> Answer | None:
    """As `_answered`; not being allowed to ask is no obstacle either."""
    try:
        return await question
    except (AccessError, CloudError) as error:
        ask.unanswered(method, error.message)
        return None


async def _accelerator(ask: Questions) -> Finding | None:
    spec = ask.desired.node
    types = await ask.cloud.accelerator_types(spec.place)
    if spec.accelerator in types:
        return None
    hint = did_you_mean(spec.accelerator, types) or f"it has: {', '.join(sorted(types)[:8]) or 'none'}"
    return Finding(ACCELERATOR, f"Google says that {spec.place.zone} has no {spec.accelerator} for this project", hint)


async def _runtime(ask: Questions) -> Finding | None:
    spec = ask.desired.node
    versions = await ask.cloud.runtime_versions(spec.place)
    if spec.runtime in versions:
        return None
    hint = did_you_mean(spec.runtime, versions) or f"it has: {', '.join(sorted(versions)[:8]) or 'none'}"
    return Finding(("tpu", "runtime"), f"Google says that {spec.place.zone} has no runtime {spec.runtime}", hint)


async def _vcpus(ask: Questions, spec: VmSpec) -> int | Finding:
    found = await ask.cloud.around().vcpus(spec.place, spec.machine_type)
    if found is not None:
        return found
    hint = "`gcloud compute machine-types list --zones=" + spec.place.zone + "` shows those it has"
    return Finding(("vm", "machine_type"), f"Google says that {spec.place.zone} has no {spec.machine_type}", hint)


def _elsewhere(ask: Questions, found: list[Node] | tuple[Vm, ...], zone: str) -> Finding | None:
    """A resource of this environment in another zone: moving the file would leave it there, unseen and billing."""
    for each in found:
        if each.place.zone != zone and ask.desired.owned.owns(each.labels):
            where = each.place.zone
            return Finding(
                ("zone",),
                f"{each.name} of this environment stands in {where} ({each.state}) and would stay there",
                f"put `zone: {where}` back and `tpuops down` first; then move",
            )
    return None
