"""A standing slice, looked at as before a run: every worker at once. Nothing there is disturbed, least of all a run.

What looks is the program that tpuops keeps on its machines; where it is missing it is put there, as any command would.
Adds no key anywhere: a slice that does not know this machine's key is not entered. What an earlier run of ours left on
the device is cleared where somebody agrees; while a run lives the machine itself refuses that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tpuops.doctor.finding import Check, Finding, Fix, broken, ok, skipped, warning
from tpuops.doctor.offers import NEEDS
from tpuops.doctor.patient import Patient
from tpuops.errors import Busy, TpuopsError
from tpuops.facts import names
from tpuops.facts.entries import KEYS, of_key, public_of
from tpuops.remote.agent import SshAgent
from tpuops.remote.keys import own_key
from tpuops.remote.readiness import Readiness
from tpuops.remote.ssh import SshConnector
from tpuops.resources import Node
from tpuops.stages import hostkeys, preflight
from tpuops.stages.access import Route, worker_at
from tpuops.stages.preflight import Row, Slice, State

CONNECT_S = 15.0
TIMEOUT_S = 60.0
KEY = "id_ed25519"

Reached = dict[int, SshAgent | str]
"""By worker: the connection, or why there is none."""


async def workers(patient: Patient) -> Finding:
    """Each worker of the slice that stands can start a run."""
    spec = patient.desired.node
    node = await patient.cloud.node(spec.place, spec.name)
    if node is None or not node.is_ready or not patient.desired.owned.owns(node.labels):
        return skipped("no TPU of this environment stands ready: there is no machine to look at")
    why = _closed(patient, node)
    if why:
        return skipped(why)
    async with _entered(patient, node) as reached:
        return _told(patient, node, await _rows(patient, node, reached))


def _closed(patient: Patient, node: Node) -> str:
    """Why the machines are not entered, empty where they may be."""
    ssh = patient.environment.ssh
    if ssh.reach == "iap" or ssh.login == "os-login":
        return "machines that are entered by OS Login or IAP are looked at by `tpuops train`, before the start"
    if not (patient.folder / KEY).exists():
        return f"{node.name} was made on another machine, and nothing here has a key to it yet"
    ours = public_of(own_key(patient.folder).public_line)
    listed = [entry for entry in of_key(node.metadata.get(KEYS, ""), ours) if entry.user == ssh.user]
    if not any(entry.opens(patient.clock.now()) for entry in listed):
        return f"{node.name} does not list this machine's key (or not any more): `{patient.typed('ssh')}` adds it"
    return ""


@asynccontextmanager
async def _entered(patient: Patient, node: Node) -> AsyncIterator[Reached]:
    """Connections to all workers, made at once and closed at the end."""
    key = own_key(patient.folder)
    connector = SshConnector(key.path, patient.clock, learns=False)
    route = Route(patient.environment.ssh.user, patient.place.ssh_port, public_of(key.public_line))

    async def enter(worker: int) -> SshAgent | str:
        try:
            told = hostkeys.told_in(patient.cloud.store(patient.desired.bucket.name), patient.environment.slug)
            grown = hostkeys.grown(node, patient.clock.now())
            published = await hostkeys.of_worker(patient.cloud, node, worker, told, grown)
            if not published:
                return "it has not published its host keys"
            host = await worker_at(patient.cloud, node, published, route, worker)
            return await connector.connect(host, CONNECT_S)
        except TpuopsError as error:
            return " ".join((error.message, *error.evidence))

    reached: Reached = dict(enumerate(await asyncio.gather(*(enter(each) for each in range(len(node.workers))))))
    try:
        yield reached
    finally:
        await asyncio.gather(*(agent.close() for agent in _agents(reached).values()))


def _agents(reached: Reached) -> dict[int, SshAgent]:
    return {worker: agent for worker, agent in reached.items() if not isinstance(agent, str)}


async def _rows(patient: Patient, node: Node, reached: Reached) -> tuple[Row, ...]:
    agents, bucket = _agents(reached), patient.desired.bucket.name
    if await patient.cloud.bucket(bucket) is None:
        bucket = ""
    prefix = f"{names.PREFIX}/{names.environment_slug(patient.environment.name)}/"
    asked = {each: preflight.question(node, each, bucket, prefix, versions=True) for each in agents}
    silent = {worker: why for worker, why in reached.items() if isinstance(why, str)}
    answers: Mapping[int, Readiness | str] = {**silent, **await preflight.ask(agents, asked)}
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
        async with _entered(patient, node) as reached:
            await asyncio.gather(*(agent.clear() for agent in _agents(reached).values()))

    return Fix(f"end what earlier runs left on the accelerator of {node.name}, and remove its free lock file", clear)


CHECKS = (Check("machines", workers, needs=(*NEEDS, "ssh-login"), timeout_s=TIMEOUT_S),)
