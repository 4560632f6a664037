"""A standing slice, looked at as before a run: every worker at once. Nothing there is disturbed, least of all a run.

What looks is the program that tpuops keeps on its machines; where it is missing it is put there, as any command would.
Adds no key anywhere: a slice that does not know this machine's key, or whose OS Login does not, is not entered. What an
earlier run of ours left on the device is cleared where somebody agrees; while a run lives the machine refuses that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tpuops.doctor.finding import Check, Finding, Fix, broken, ok, skipped, warning
from tpuops.doctor.offers import NEEDS
from tpuops.doctor.patient import Patient
from tpuops.doctor.ssh import THROUGH_IAP_S, route
from tpuops.errors import Busy, CommandFailed, Unreachable
from tpuops.facts import names
from tpuops.facts.entries import KEYS, of_key, public_of
from tpuops.remote.agent import SshAgent
from tpuops.remote.keys import own_key
from tpuops.remote.readiness import Readiness
from tpuops.remote.ssh import SshConnector
from tpuops.resources import Node
from tpuops.stages import hostkeys, preflight
from tpuops.stages.access import worker_at
from tpuops.stages.fanout import entered
from tpuops.stages.preflight import Row, Slice, State

CONNECT_S = 15.0
TIMEOUT_S = 60.0
KEY = "id_ed25519"


async def workers(patient: Patient) -> Finding:
    """Each worker of the slice that stands can start a run."""
    spec = patient.desired.node
    node = await patient.cloud.node(spec.place, spec.name)
    if node is None or not node.is_ready or not patient.desired.owned.owns(node.labels):
        return skipped("no TPU of this environment stands ready: there is no machine to look at")
    why = await _closed(patient, node)
    if why:
        return skipped(why)
    async with entered(range(len(node.workers)), await _door(patient, node)) as (agents, shut):
        return _told(patient, node, await _rows(patient, node, agents, shut))


async def _closed(patient: Patient, node: Node) -> str:
    """Why the machines are not entered, empty where they may be."""
    if not (patient.folder / KEY).exists():
        return f"{node.name} was made on another machine, and nothing here has a key to it yet"
    ssh, ours = patient.environment.ssh, public_of(own_key(patient.folder).public_line)
    if ssh.login == "os-login":
        _, known = await patient.cloud.logins().login_name(ours)
        return "" if known else f"OS Login does not know this machine's key: `{patient.typed('ssh')}` adds it"
    listed = [entry for entry in of_key(node.metadata.get(KEYS, ""), ours) if entry.user == ssh.user]
    if not any(entry.opens(patient.clock.now()) for entry in listed):
        return f"{node.name} does not list this machine's key (or not any more): `{patient.typed('ssh')}` adds it"
    return ""


async def _door(patient: Patient, node: Node) -> Callable[[int], Awaitable[SshAgent | str]]:
    """Enters one worker; in words what keeps us out."""
    connector = SshConnector(own_key(patient.folder).path, patient.clock, learns=False)
    way = await route(patient)
    limit_s = CONNECT_S if way.proxy is None else THROUGH_IAP_S
    grown = hostkeys.grown(node, patient.clock.now())

    async def enter(worker: int) -> SshAgent | str:
        try:
            published = await hostkeys.of_worker(patient.cloud, node, worker, way.told, grown)
            if not published:
                return "it has not published its host keys"
            host = await worker_at(patient.cloud, node, published, way, worker)
            return await connector.connect(host, limit_s)
        except (Unreachable, CommandFailed) as error:
            return " ".join((error.message, *error.evidence))

    return enter


async def _rows(
    patient: Patient, node: Node, agents: Mapping[int, SshAgent], shut: Mapping[int, str]
) -> tuple[Row, ...]:
    bucket = patient.desired.bucket.name
    if await patient.cloud.bucket(bucket) is None:
        bucket = ""
    prefix = f"{names.PREFIX}/{names.environment_slug(patient.environment.name)}/"
    asked = {each: preflight.question(node, each, bucket, prefix, versions=True) for each in agents}
    answers: Mapping[int, Readiness | str] = {**shut, **await preflight.ask(agents, asked)}
    anew = f"{patient.typed('down')} && {patient.typed('up')}"
    return preflight.judge(answers, Slice(bucket, len(node.workers), patient.typed("ssh"), anew))


def _told(patient: Patient, node: Node, rows: tuple[Row, ...]) -> Finding:
    """The first fault decides; what is repaired before a start is a warning with its fix; the rest is evidence."""
    count = len(node.workers)
    lines = [f"worker {row.worker}: {row.check}: {row.what}" for row in rows if row.state is not State.OK]
    fault = preflight.blocking(rows)
    if fault is not None:
        kind = fault.failure_class.replace("_", "-")
        code = Busy.exit_code if fault.failure_class == preflight.IN_USE else 3
        what = f"worker {fault.worker} of {node.name} is not ready: {fault.check}: {fault.what}"
        return broken(kind, what, evidence=lines, hint=fault.fix, exit_code=code)
    if any(row.state is State.REPAIR for row in rows):
        what = f"an earlier run left something on {node.name}"
        return warning("device-left-held", what, evidence=lines, fix=_clearing(patient, node))
    if lines:
        notes = [row.fix for row in rows if row.state is State.NOTE and row.fix]
        return warning("machine-noted", f"{node.name} can start a run", evidence=lines, hint="; ".join(notes))
    return ok(f"{count} worker{'s' if count > 1 else ''} of {node.name} ready", [_versions(rows)])


def _versions(rows: tuple[Row, ...]) -> str:
    return next((row.what for row in rows if row.check == "versions"), "")


def _clearing(patient: Patient, node: Node) -> Fix:
    async def clear() -> None:
        async with entered(range(len(node.workers)), await _door(patient, node)) as (agents, _):
            await asyncio.gather(*(agent.clear() for agent in agents.values()))

    return Fix(f"end what earlier runs left on the accelerator of {node.name}, and remove its free lock file", clear)


CHECKS = (Check("machines", workers, needs=(*NEEDS, "ssh-login"), timeout_s=TIMEOUT_S),)
