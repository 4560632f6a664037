"""Check: what must hold before anything is called, started or made, told with the line of the file it comes from.

The file's own rules live in `environment.rules`; here stands what depends on what a command is about to do, and on what
the cloud says when asked: one read a question, all in flight together, and only where something is to be made.
Nothing here changes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from tpuops.cloud.port import CloudReader
from tpuops.environment import Environment, Finding, refused
from tpuops.environment.problems import did_you_mean
from tpuops.errors import Transient
from tpuops.facts import catalogue
from tpuops.plan import Plan, Role, Verb
from tpuops.resources import Desired, Node, Vm

ACCELERATOR = ("tpu", "accelerator")


def trainable(environment: Environment) -> None:
    """Calls nothing.

    Raises:
        EnvironmentFileError: `train` and `run` cannot do yet what the file asks for.
    """
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


@dataclass(frozen=True, slots=True)
class Questions:
    """Whom to ask about what, and who hears of a question that nobody answered."""

    cloud: CloudReader
    environment: Environment
    desired: Desired
    unanswered: Callable[[str, str], None]


async def offered(plan: Plan, ask: Questions) -> None:
    """What the plan makes is there to be had, and does not stand elsewhere already.

    A question that the service cannot answer now is told to `unanswered`; the creation itself will answer it.

    Raises:
        EnvironmentFileError: with every objection and the line of its field.
    """
    made = {change.role for change in plan.changes if change.verb in {Verb.CREATE, Verb.REPLACE}}
    questions = [
        *([_accelerator(ask), _runtime(ask), _node_elsewhere(ask)] if Role.NODE in made else []),
        *([_machine_type(ask), _vm_elsewhere(ask)] if Role.VM in made else []),
    ]
    answers = await asyncio.gather(*(_answered(question, ask) for question in questions))
    found = [finding for finding in answers if finding is not None]
    if found:
        raise refused(ask.environment, found)


async def _answered(question: Awaitable[Finding | None], ask: Questions) -> Finding | None:
    try:
        return await question
    except Transient as error:
        ask.unanswered(error.method, error.message)
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


async def _machine_type(ask: Questions) -> Finding | None:
    spec = ask.desired.vm
    if spec is None or await ask.cloud.has_machine_type(spec.place, spec.machine_type):
        return None
    hint = "`gcloud compute machine-types list --zones=" + spec.place.zone + "` shows those it has"
    return Finding(("vm", "machine_type"), f"Google says that {spec.place.zone} has no {spec.machine_type}", hint)


async def _node_elsewhere(ask: Questions) -> Finding | None:
    spec = ask.desired.node
    found = await ask.cloud.nodes_anywhere(spec.place.project)
    return _elsewhere(ask, [node for node in found if node.name == spec.name], spec.place.zone)


async def _vm_elsewhere(ask: Questions) -> Finding | None:
    if ask.desired.vm is None:
        return None
    found = await ask.cloud.vms_anywhere(ask.desired.vm.place.project, ask.desired.owned.labels)
    return _elsewhere(ask, found, ask.desired.vm.place.zone)


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
