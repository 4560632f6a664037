"""The home bucket and who reaches it: ourselves, and the machines by the account they carry and its scopes.

What an account may do is read from the policies of bucket and project. Roles that it has through a folder or a group
are not seen there, so that a finding says what was looked at; a machine that stands is asked itself before each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tpuops.cloud.surroundings import Identity
from tpuops.doctor.finding import Check, Finding, Fix, broken, ok, warning
from tpuops.doctor.offers import NEEDS, in_file
from tpuops.doctor.patient import Patient
from tpuops.environment import Finding as Objection
from tpuops.environment.problems import Path
from tpuops.errors import AccessError, Refused
from tpuops.facts import catalogue, names
from tpuops.facts.roles import SCOPE
from tpuops.resources import Bucket
from tpuops.stages.record import RUNNING, Records

NAME: Path = ("bucket", "name")
OURS = ("storage.objects.get", "storage.objects.list", "storage.objects.create", "storage.objects.delete")
GRANTED = ("roles/storage.objectAdmin", "roles/storage.legacyBucketReader")
"""What machines need of their bucket (google-cloud.md 4.11)."""
ENOUGH = frozenset({"roles/storage.objectAdmin", "roles/storage.objectUser", "roles/storage.admin"})
ON_PROJECT = ENOUGH | {"roles/editor", "roles/owner"}
DELETE_S = 600.0


async def bucket(patient: Patient) -> Finding:
    """The bucket is ours and holds the zone's region, or its name is free."""
    spec = patient.desired.bucket
    try:
        found = await _bucket(patient)
    except Refused as error:
        hint = "set `bucket.name` to a bucket of this project, or leave it out"
        return in_file(patient, "bucket-not-ours", Objection(NAME, error.message, hint))
    if found is None:
        return ok(f"gs://{spec.name} is not there yet; `up` makes it in {spec.location}")
    number = await patient.number()
    if found.project_number != number:
        what = f"bucket {found.name} belongs to project number {found.project_number}, not to {number}"
        hint = "set `bucket.name` to a bucket of this project, or leave it out"
        return in_file(patient, "bucket-not-ours", Objection(NAME, what, hint))
    if not catalogue.location_holds(found.location, spec.location, found.regions):
        what = f"bucket {found.name} is in {found.location}, and the zone is in {spec.location}"
        hint = "a bucket cannot move: set another `bucket.name`, or a zone of the bucket's region"
        return in_file(patient, "bucket-far", Objection(NAME, what, hint))
    return ok(f"gs://{found.name} is ours, in {found.location}")


async def bucket_access(patient: Patient) -> Finding:
    """Whoever types may read, write, list and delete in the bucket."""
    if await _bucket(patient) is None:
        return ok("the bucket is not there yet; who makes it may use it")
    name = patient.desired.bucket.name
    held = await patient.cloud.around().bucket_permissions(name, OURS)
    lacking = [permission for permission in OURS if permission not in held]
    if not lacking:
        return ok(f"this login reads and writes gs://{name}")
    return broken(
        "bucket-forbidden",
        f"this login may not use gs://{name} as it must",
        evidence=[f"lacks {permission}" for permission in lacking],
        hint=f"`gcloud storage buckets add-iam-policy-binding gs://{name} --member=user:YOU "
        "--role=roles/storage.objectAdmin`, by somebody who may",
    )


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines that carry one account; an account that the file does not name is the project's default one."""

    account: str
    path: Path
    what: str
    named: bool

    @property
    def member(self) -> str:
        """The account as policies write it."""
        return f"serviceAccount:{self.account}"


async def _machines(patient: Patient) -> tuple[Machines, ...]:
    default = f"{await patient.number()}-compute@developer.gserviceaccount.com"  # google-cloud.md 3.1.3
    return tuple(_by_account(patient, default))


def _by_account(patient: Patient, default: str) -> Iterator[Machines]:
    node, vm = patient.desired.node, patient.desired.vm
    yield Machines(node.service_account or default, ("tpu", "service_account"), "the TPU", bool(node.service_account))
    if vm is not None and vm.service_account != node.service_account:
        yield Machines(vm.service_account or default, ("vm", "service_account"), "the VM", bool(vm.service_account))


async def accounts(patient: Patient) -> Finding:
    """The service accounts that the file names are there."""
    project, around = patient.project, patient.cloud.around()
    named = [machines for machines in await _machines(patient) if machines.named]
    for machines in named:
        try:
            if not await around.has_account(_project_of(machines.account, project), machines.account):
                return _missing(patient, machines)
        except AccessError as error:
            what = f"whether service account {machines.account} is there could not be asked"
            hint = "whoever has iam.serviceAccounts.get (roles/iam.serviceAccountUser has it) can ask"
            return warning("account-unseen", what, evidence=error.evidence, hint=hint)
    there = " and ".join(machines.account for machines in named)
    return ok(f"known: {there}" if named else "the default one is used")


def _missing(patient: Patient, machines: Machines) -> Finding:
    """An account of this project can be made: it begins with no right at all, and gets the bucket alone."""
    project, (name, _, rest) = patient.project, machines.account.partition("@")
    objection = Objection(machines.path, f"there is no service account {machines.account}", "")
    found = in_file(patient, "account-missing", objection)
    if rest != f"{project}.iam.gserviceaccount.com":
        hint = "it lies in another project: ask there, or name one of this project"
        return broken(found.kind, found.what, evidence=found.evidence, hint=hint)

    async def make() -> None:
        await patient.cloud.around().make_account(project, name, f"tpuops: {patient.environment.name}")
        await _grant(patient, machines)

    command = f"gcloud iam service-accounts create {name} --project={project}"
    return broken(
        found.kind,
        found.what,
        evidence=found.evidence,
        hint=f"`{command}`, or leave the field out for the project's default account",
        fix=Fix(
            f"make service account {machines.account}, which may use gs://{patient.desired.bucket.name} and nothing "
            f"else, for {machines.what}",
            make,
            command,
        ),
    )


async def machines_bucket(patient: Patient) -> Finding:
    """The machines' accounts may read and write the bucket."""
    unseen = []
    for machines in await _machines(patient):
        try:
            if not await _reaches(patient, machines):
                return _without(patient, machines)
        except AccessError as error:
            unseen += [f"{machines.account}: {error.message}", *error.evidence]
    if unseen:
        return warning(
            "account-unseen",
            "whether the machines may use the bucket could not be asked",
            evidence=unseen,
            hint="a machine that stands is asked itself before each run; else ask somebody with "
            "resourcemanager.projects.getIamPolicy",
        )
    return ok("the machines' service account may use the bucket")


async def _reaches(patient: Patient, machines: Machines) -> bool:
    around = patient.cloud.around()
    if await _bucket(patient) is not None:
        roles = await around.bucket_roles(patient.desired.bucket.name, machines.member)
        if roles & ENOUGH or {"roles/storage.legacyBucketWriter", "roles/storage.objectViewer"} <= roles:
            return True
    return bool(await around.project_roles(patient.project, machines.member) & ON_PROJECT)


def _without(patient: Patient, machines: Machines) -> Finding:
    name = patient.desired.bucket.name
    command = (
        f"gcloud storage buckets add-iam-policy-binding gs://{name} --member={machines.member} --role={GRANTED[0]}"
    )
    return broken(
        "account-without-bucket",
        f"{machines.what} runs as {machines.account}, which has no role that reaches gs://{name}",
        evidence=["looked at: the policies of the bucket and of the project, not of folders and groups"],
        hint=f"`{command}`",
        fix=Fix(
            f"grant {machines.account} {' and '.join(GRANTED)} on gs://{name}",
            lambda: _grant(patient, machines),
            command,
        ),
    )


async def _grant(patient: Patient, machines: Machines) -> None:
    """A bucket that is not there yet is made first, just as `up` makes it."""
    spec = patient.desired.bucket
    if await patient.cloud.bucket(spec.name) is None:
        await patient.cloud.create_bucket(spec)
    await patient.cloud.around().grant_on_bucket(spec.name, machines.member, GRANTED)


async def machines_scopes(patient: Patient) -> Finding:
    """Machines that stand can write to a bucket as far as their scopes go (google-cloud.md 3.1.2)."""
    desired, around = patient.desired, patient.cloud.around()
    node = await patient.cloud.node(desired.node.place, desired.node.name)
    if node is not None and desired.owned.owns(node.labels):
        found = await around.identity_of_node(node.place, node.name)
        if found is not None and not found.writes_objects:
            return await _tpu_without_scopes(patient, found)
    if desired.vm is not None:
        vm = await patient.cloud.vm(desired.vm.place, desired.vm.name)
        if vm is not None and desired.owned.owns(vm.labels):
            found = await around.identity_of_vm(vm.place, vm.name)
            if found is not None and not found.writes_objects:
                return _vm_without_scopes(patient, found)
    return ok("every machine that stands has the scopes for it, and so will new ones")


def _vm_without_scopes(patient: Patient, found: Identity) -> Finding:
    vm = patient.desired.vm
    assert vm is not None
    account, place = vm.service_account or found.account, vm.place
    command = (
        f"gcloud compute instances stop {vm.name} --zone={place.zone} --project={place.project} && "
        f"gcloud compute instances set-service-account {vm.name} --zone={place.zone} --project={place.project} "
        f"--scopes=cloud-platform && gcloud compute instances start {vm.name} --zone={place.zone} "
        f"--project={place.project}"
    )
    around = patient.cloud.around()
    return broken(
        "vm-scopes",
        f"VM {vm.name} was made without the scope to write to a bucket",
        evidence=[f"its scopes: {_short(found)}"],
        hint="scopes are changed on a stopped machine: `tpuops doctor --fix` stops it, sets them and starts it",
        fix=Fix(
            f"stop VM {vm.name}, give it the scope cloud-platform, and start it again",
            lambda: around.rescope_vm(place, vm.name, account, [SCOPE]),
            command,
        ),
    )


async def _tpu_without_scopes(patient: Patient, found: Identity) -> Finding:
    """The TPU API changes no scopes of a node, stopped or not: only making it anew does."""
    spec = patient.desired.node
    what, evidence = f"TPU {spec.name} was made without the scope to write to a bucket", [f"its: {_short(found)}"]
    store = patient.cloud.store(patient.desired.bucket.name)
    record = await Records(store, f"tpuops/{names.environment_slug(patient.environment.name)}/run.json").read()
    if record is not None and record.state == RUNNING:
        hint = f"`{patient.typed('stop')}` run {record.run_id} first; then `{patient.typed('doctor', '--fix')}`"
        return broken("tpu-scopes", what, evidence=evidence, hint=hint)

    async def delete() -> None:
        operation = await patient.cloud.delete_node(spec.place, spec.name)
        if operation is not None:
            await patient.cloud.wait(operation, DELETE_S)

    return broken(
        "tpu-scopes",
        what,
        evidence=evidence,
        hint=f"a TPU's scopes cannot be changed: `{patient.typed('down')}` and `{patient.typed('up')}` make it anew",
        fix=Fix(
            f"delete TPU {spec.name}, on which no run is open; `up` makes it anew with every scope",
            delete,
            f"{patient.typed('down')} && {patient.typed('up')}",
        ),
    )


def _short(found: Identity) -> str:
    return ", ".join(sorted(scope.rpartition("/")[2] for scope in found.scopes)) or "none"


def _project_of(account: str, project: str) -> str:
    """An account's own project, where its address says it."""
    host = account.partition("@")[2]
    return host.removesuffix(".iam.gserviceaccount.com") if host.endswith(".iam.gserviceaccount.com") else project


async def _bucket(patient: Patient) -> Bucket | None:
    return await patient.shared.once("bucket", lambda: patient.cloud.bucket(patient.desired.bucket.name))


CHECKS = (
    Check("bucket", bucket, NEEDS),
    Check("bucket-access", bucket_access, (*NEEDS, "bucket")),
    Check("accounts", accounts, NEEDS),
    Check("machines-bucket", machines_bucket, (*NEEDS, "bucket", "accounts")),
    Check("machines-scopes", machines_scopes, (*NEEDS, "bucket")),
)
