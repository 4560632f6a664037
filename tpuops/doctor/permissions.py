"""The roles that a run needs, printed, and proven one permission at a time by asking what this login may do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tpuops.doctor.credentials import identity
from tpuops.doctor.finding import Check, Finding, State, broken, ok, warning
from tpuops.doctor.patient import Patient
from tpuops.errors import AccessError, CloudError, TpuopsError
from tpuops.facts import roles
from tpuops.facts.roles import Role

ACT_AS = "iam.serviceAccounts.actAs"
MAKE_BUCKET = "storage.buckets.create"


async def permissions(patient: Patient) -> Finding:
    """Which of the permissions that tpuops uses this login has on the project."""
    needed = _needed(patient)
    wanted = [permission for role in needed for permission in role.permissions]
    try:
        held = await _held(patient, wanted)
    except AccessError as error:
        if error.kind != "api-disabled":
            raise
        what = "what this login may do cannot be asked: the Resource Manager API is off"
        return warning("permissions-unknown", what, evidence=_list(needed), hint=error.hint)
    missing = await _elsewhere(patient, set(wanted) - held)
    if not missing:
        return ok(f"all {len(wanted)} that are needed", _list(needed))
    found = await _lacking(patient, missing)
    if not missing <= {permission for role in roles.PRIVATE.values() for permission in role.permissions}:
        return found
    # An instance's or a tunnel's own policy may grant it, or the account that gcloud itself goes in with has it.
    return replace(found, state=State.WARNING, exit_code=0)


def _needed(patient: Patient) -> tuple[Role, ...]:
    ssh = patient.environment.ssh
    return roles.operator(ssh.login, ssh.reach)


async def _elsewhere(patient: Patient, missing: set[str]) -> set[str]:
    """What is still missing where the bucket and the machines' accounts have policies of their own."""
    storage = {name for name in missing if name.startswith("storage.")}
    if storage:
        missing = missing - await _on_bucket(patient, storage)
    if ACT_AS in missing and await _on_accounts(patient):
        missing = missing - {ACT_AS}
    return missing


async def _on_bucket(patient: Patient, wanted: set[str]) -> set[str]:
    """Those that the bucket itself grants; a bucket that is there need not be made."""
    name = patient.desired.bucket.name
    asked = sorted(wanted - {MAKE_BUCKET})
    try:
        held = await patient.cloud.around().bucket_permissions(name, [*asked, "storage.buckets.get"])
    except TpuopsError:
        return set()
    return set(held) | {MAKE_BUCKET}


async def _on_accounts(patient: Patient) -> bool:
    """Whether this login may give the machines their accounts, by the accounts' own policies."""
    node, vm = patient.desired.node, patient.desired.vm
    named = {node.service_account, *([vm.service_account] if vm else [])}
    try:
        default = f"{await patient.number()}-compute@developer.gserviceaccount.com"  # google-cloud.md 3.1.3
        answers = [await _tested(patient, f"/serviceAccounts/{name or default}", [ACT_AS]) for name in named]
    except TpuopsError:
        return False
    return all(answers)


async def _lacking(patient: Patient, missing: set[str]) -> Finding:
    who = await identity(patient)
    member = who.member
    short = [role for role in _needed(patient) if missing & set(role.permissions)]
    grants = [roles.grant(role.name, member, patient.project) for role in short]
    lines = [f"{role.name}: {', '.join(name for name in role.permissions if name in missing)}" for role in short]
    count = "a permission" if len(missing) == 1 else f"{len(missing)} permissions"
    return broken(
        "permission-denied",
        f"{who.email or 'this login'} lacks {count} on {patient.project}, of {', '.join(role.name for role in short)}",
        evidence=lines,
        hint=f"the project's owner types `{' && '.join(grants)}`",
    )


async def _held(patient: Patient, wanted: Sequence[str]) -> set[str]:
    """Those of the permissions that the login has. One that this API does not know is taken as held: a call tells."""
    asked, unknown = list(wanted), set[str]()
    while True:
        try:
            return unknown | await _tested(patient, "", asked)
        except CloudError as error:
            odd = [name for name in re.findall(r"[\w]+\.[\w.]+", error.message) if name in asked]
            if error.status != 400 or not odd:
                raise
            unknown |= set(odd)
            asked = [name for name in asked if name not in unknown]


async def _tested(patient: Patient, below: str, asked: Iterable[str]) -> set[str]:
    """Those that the login has on the project, or on an account `below` it."""
    service, kind = ("iam", "serviceAccounts") if below else ("resourcemanager", "projects")
    path, body = f"/v1/projects/{patient.project}{below}:testIamPermissions", {"permissions": list(asked)}
    found = await patient.caller.ask(
        f"{service}.{kind}.testIamPermissions",
        patient.project,
        lambda: patient.rest.json(service, "POST", path, body=body),
    )
    return set(found.get("permissions", []))


def _list(of: Sequence[Role]) -> list[str]:
    return [f"scope {roles.SCOPE}", *(f"{role.name}: {role.why}" for role in of)]


CHECKS = (Check("permissions", permissions, needs=("credentials", "scopes", "project", "quota-project"), timeout_s=40),)
