"""Can somebody log in to the machine that stands: host keys, our key, a login itself. Where none stands, all is well.

Leaves no trace: a machine that was never met is not remembered, and no key is added before somebody agreed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tpuops.desired import KEY_MARGIN, key_end
from tpuops.doctor.finding import Check, Finding, Fix, broken, ok, warning
from tpuops.doctor.keys import own_path
from tpuops.doctor.patient import Patient
from tpuops.errors import AccessError
from tpuops.facts.entries import KEYS, Entry, of_key, public_of
from tpuops.journal import Journal
from tpuops.remote import local
from tpuops.remote.keys import own_key
from tpuops.remote.port import Barrier, NotConnected
from tpuops.remote.ssh import SshConnector
from tpuops.resources import Node
from tpuops.stages import entry, hostkeys
from tpuops.stages.access import Route, list_on_node, os_login, why_not, worker_at
from tpuops.stages.apply import Crew

PROBE_S = 6.0
THROUGH_IAP_S = 20.0
NEW_KEY_S = 150.0


async def carrier(patient: Patient) -> Finding:
    """The program that carries connections is here."""
    if local.installed("gcloud") is None:
        return broken(
            "gcloud-missing",
            "gcloud is not installed here, and `ssh.reach: iap` goes through it",
            hint="install the Google Cloud SDK, https://cloud.google.com/sdk/docs/install, or reach machines otherwise",
        )
    return ok("gcloud is here to carry SSH through Identity-Aware Proxy")


async def login(patient: Patient) -> Finding:
    """Somebody can log in to the TPU that stands."""
    node = await patient.cloud.node(patient.desired.node.place, patient.desired.node.name)
    if node is None or not patient.desired.owned.owns(node.labels):
        return ok("no machine of ours stands to log in to")
    if not node.is_ready:
        return warning("machine-down", f"TPU {node.name} is {node.state}", hint=f"{patient.typed('up')} brings it back")
    host_keys = await _host_keys(patient, node)
    if not host_keys:
        return broken(
            "ssh-host-keys-missing",
            f"{node.name} has not published its host keys, and without them nobody is trusted",
            hint="a new machine needs a minute; where the policy compute.disableGuestAttributesAccess holds, "
            "it must be able to write to the home bucket",
            exit_code=5,
        )
    return await _unlisted(patient, node) or await _tried(patient, node, host_keys)


async def _host_keys(patient: Patient, node: Node) -> tuple[str, ...]:
    return await hostkeys.of_worker(patient.cloud, node, 0, _told(patient), hostkeys.grown(node, patient.clock.now()))


def _told(patient: Patient) -> hostkeys.Told:
    """What the machines tell in the home bucket."""
    return hostkeys.told_in(patient.cloud.store(patient.desired.bucket.name), patient.environment.slug)


async def _unlisted(patient: Patient, node: Node) -> Finding | None:
    """What keeps our key out before anybody knocks; None where nothing does."""
    path, user = own_path(patient), patient.environment.ssh.user
    if patient.environment.ssh.login == "os-login":
        name, known = await patient.cloud.logins().login_name(_public(patient)) if path.is_file() else ("", False)
        return None if known else _key(patient, node, "ssh-key-unknown", f"OS Login does not know our key yet {name}")
    if await os_login(patient.cloud, node):
        return broken(
            "ssh-os-login",
            f"{node.name} has OS Login switched on, which puts keys in metadata out of force",
            hint="write `ssh: {login: os-login}` into the environment file; the project's metadata may say so for all",
        )
    listed = of_key(node.metadata.get(KEYS, ""), _public(patient)) if path.is_file() else ()
    ours = [each for each in listed if each.user == user]
    now = patient.clock.now()
    if any(each.opens(now) for each in ours):
        return None
    if ours:
        return _key(patient, node, "ssh-key-expired", f"our key for {user} on {node.name} has run out")
    if listed:
        others = ", ".join(sorted({each.user for each in listed}))
        return _key(patient, node, "ssh-user", f"{node.name} lists our key for the user {others}, not for {user}")
    return _key(patient, node, "ssh-key-unknown", f"{node.name} does not list this machine's key")


def _key(patient: Patient, node: Node, kind: str, what: str) -> Finding:
    """Commands that log in add the key by themselves, so that nothing is hindered."""
    return warning(
        kind,
        what.strip(),
        hint=f"{patient.typed('ssh')}, logs, attach, train and run add it by themselves",
        fix=Fix(f"add this machine's key to {node.name}", _let_in(patient, node)),
    )


def _let_in(patient: Patient, node: Node) -> Callable[[], Awaitable[None]]:
    async def let_in() -> None:
        now = patient.clock.now()
        key = public_of(own_key(patient.folder).public_line)
        end = key_end(patient.environment, now)
        if patient.environment.ssh.login == "os-login":
            await patient.cloud.logins().login_as(patient.project, key, end - KEY_MARGIN, end)
        else:
            crew = Crew(patient.cloud, _unasked, patient.clock, Journal(patient.clock, None))
            await list_on_node(Entry(patient.environment.ssh.user, key, end), end - KEY_MARGIN, crew, node)
        await _in_force(patient, node)

    return let_in


async def _in_force(patient: Patient, node: Node) -> None:
    """Wait until the machine takes the key, or something else than the key stands in the way."""
    host_keys = await _host_keys(patient, node)
    host = await worker_at(patient.cloud, node, host_keys, await route(patient))
    connector = SshConnector(own_path(patient), patient.clock, learns=False)
    end = patient.clock.monotonic() + NEW_KEY_S
    while patient.clock.monotonic() < end:
        try:
            await connector.probe(host, PROBE_S)
        except NotConnected as failed:
            if failed.barrier is Barrier.KEY:
                continue
        return


async def _unasked() -> None:
    """Adding a key hinders nobody: no lease stands before it."""


async def _tried(patient: Patient, node: Node, host_keys: tuple[str, ...]) -> Finding:
    way = await route(patient)
    limit_s = PROBE_S if way.proxy is None else THROUGH_IAP_S
    host = await worker_at(patient.cloud, node, host_keys, way)
    try:
        await SshConnector(own_path(patient), patient.clock, learns=False).probe(host, limit_s)
    except NotConnected as failed:
        raise await why_not(patient.cloud, node, way, failed, patient.clock, limit_s) from failed
    return ok(f"{host.user} can log in to {node.name}")


async def route(patient: Patient) -> Route:
    """How machines are reached, with the user's name that OS Login gives; no key is made known to anybody."""
    environment, key = patient.environment, _public(patient)
    user, carried = environment.ssh.user, entry.tunnel(environment, patient.stage, patient.folder / "ssh")
    if environment.ssh.login == "os-login":
        user, _ = await patient.cloud.logins().login_name(key)
    way = Route(user, patient.place.ssh_port, key, environment.ssh.reach, told=_told(patient))
    return way if carried is None else replace(way, proxy=carried.argv)


def _public(patient: Patient) -> str:
    try:
        return public_of(own_key(patient.folder).public_line)
    except AccessError:
        return ""  # the check of the key itself says why


CHECKS = (
    Check("ssh-carrier", carrier, applies=lambda patient: patient.environment.ssh.reach == "iap"),
    Check("ssh-login", login, needs=("credentials", "project", "ssh-key", "ssh-carrier"), timeout_s=40.0),
)
