"""Which host keys a machine has, known before the first connection: from guest attributes, else from the home bucket.

So is the name by which Identity-Aware Proxy knows a TPU's worker; a wrong one leads to a machine with other keys.

Guest attributes come first. Where policy forbids them (refused, or still absent long after the machine was made), the
object is read that the machine's start-up script writes under the machine's own identity. It is believed only if the
bucket's clock says that it was written after the machine was created, so that nothing an earlier machine of the name
left behind counts, and only for the very machine and worker that it names; a VM's also for its instance id alone (the
id that a TPU's worker knows itself by is not the node's). Weaker than guest attributes: whoever may write to the home
bucket can put keys there, which holds for nobody outside the environment. What was once met stays pinned either way.
The keys are as yet only lines: `remote.known` reads them strictly, wherever they come from.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from tpuops.cloud.port import CloudReader, ObjectStore, StoredObject
from tpuops.errors import AccessError, Conflict, Refused, TpuopsError
from tpuops.resources import Node, Vm
from tpuops.switch import host_keys_below

Answer = TypeVar("Answer")

Told = Callable[[str], Awaitable[StoredObject | None]]
"""Reads what a machine of that name told; None where there is nothing."""


@dataclass(frozen=True, slots=True)
class Telling:
    """What a machine told in the bucket; nothing, where it told nothing that counts."""

    keys: tuple[str, ...] = ()
    hostname: str = ""


ABSENT_S = 120.0
"""How long a machine that runs is waited for before it counts as one without guest attributes."""

GROWN = timedelta(minutes=15)
"""The same after its creation, for whoever does not wait: making a TPU takes minutes before it runs."""


def grown(machine: Node | Vm, now: datetime) -> bool:
    """Whether guest attributes that a machine has not by now are not still to come."""
    return machine.created is not None and now - machine.created >= GROWN


def told_in(store: ObjectStore, environment: str) -> Told:
    """What the machines of an environment (its slug) tell in its home bucket."""
    return lambda name: store.read(f"{host_keys_below(environment)}{name}.json")


async def of_worker(cloud: CloudReader, node: Node, index: int, told: Told | None, settled: bool) -> tuple[str, ...]:
    """A worker's host keys as `type base64` lines; empty until it has told them anywhere.

    Unless `settled`, guest attributes that are absent are still to come, and nothing weaker is believed.
    Raises `AccessError` where the object is not what a machine writes.
    """
    keys = await _published(lambda: cloud.host_keys(node.place, node.name, index), told)
    return keys or await _told_keys(keys is None or settled, node, f"{node.name}-{index}", told)


async def of_vm(cloud: CloudReader, vm: Vm, told: Told | None, settled: bool) -> tuple[str, ...]:
    """The same of a VM."""
    keys = await _published(lambda: cloud.vm_host_keys(vm.place, vm.name), told)
    return keys or await _told_keys(keys is None or settled, vm, vm.name, told)


async def instance_of(cloud: CloudReader, node: Node, index: int, told: Told | None) -> str:
    """The name that a worker has as an instance; empty until it has told it anywhere. Raises as `of_worker`."""
    found = await _published(lambda: cloud.instance_of(node.place, node.name, index), told)
    return found or (await _told(node, f"{node.name}-{index}", told)).hostname


async def _published(ask: Callable[[], Awaitable[Answer]], told: Told | None) -> Answer | None:
    """What guest attributes say; None where policy forbids them and the bucket can be asked instead."""
    try:
        return await ask()
    except (AccessError, Conflict, Refused) as error:
        if told is None or not _by_policy(error):
            raise
        return None


async def _told_keys(wanted: bool, machine: Node | Vm, name: str, told: Told | None) -> tuple[str, ...]:
    return (await _told(machine, name, told)).keys if wanted else ()


async def _told(machine: Node | Vm, name: str, told: Told | None) -> Telling:
    found = None if told is None else await told(name)
    return Telling() if found is None else believed(found, machine, name)


def _by_policy(error: TpuopsError) -> bool:
    """Whether a policy forbids it, and not a missing permission, which a person can grant."""
    return not isinstance(error, AccessError) or error.kind == "org-policy"


def believed(found: StoredObject, machine: Node | Vm, name: str) -> Telling:
    """What this very machine told; nothing where an earlier one did, or it cannot be known which.

    Raises `AccessError` where the object is not what a machine writes.
    """
    try:
        document = json.loads(found.data)
        telling = Telling(tuple(str(line) for line in document["keys"]), str(document.get("hostname", "")))
        said, instance = document["name"], document["instance"]
    except (ValueError, KeyError, TypeError) as error:
        raise AccessError(
            f"{name}: what the home bucket holds as its host keys is not what a machine writes",
            evidence=[f"{found.stat.name}: {type(error).__name__}: {error}"],
            hint=f"look who may write to the bucket; rm {found.stat.name}, and the machine's next boot writes it anew",
            kind="ssh-host-key-malformed",
        ) from error
    this = said == name and (isinstance(machine, Node) or instance == machine.id)
    return telling if this and machine.created is not None and found.stat.updated >= machine.created else Telling()
