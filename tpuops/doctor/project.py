"""The project: is it there, is it paid for, do calls count for it, are its APIs on, is its zone open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tpuops.doctor.credentials import identity
from tpuops.doctor.finding import Check, Finding, Fix, broken, of_error, ok, skipped, warning
from tpuops.doctor.patient import Patient
from tpuops.environment.problems import did_you_mean
from tpuops.errors import AccessError, NotFound, Refused, TpuopsError
from tpuops.remote.files import write_private

NEEDED: Mapping[str, str] = {
    "tpu.googleapis.com": "makes the TPU",
    "compute.googleapis.com": "makes the VM, and knows the project's number",
    "storage.googleapis.com": "keeps the bucket",
}
WANTED: Mapping[str, str] = {"cloudresourcemanager.googleapis.com": "tells which permissions a login has"}
ENABLING_S = 600.0
FIRST_LOOK_S, LONGEST_LOOK_S = 0.5, 5.0


async def project(patient: Patient) -> Finding:
    """That the project exists for this login, and has a billing account."""
    name = patient.project
    try:
        number = await patient.number()
    except AccessError as error:
        if error.kind == "project-wrong":
            return await _wrong(patient, of_error(error))
        if error.kind == "billing-disabled":
            raise
        return ok(f"{name}; its number could not be read: {error.message}")
    return ok(f"{name}, number {number}")


async def _wrong(patient: Patient, finding: Finding) -> Finding:
    """With the project that was meant, if the login knows one that is nearly called so."""
    login = (await identity(patient)).login
    near = did_you_mean(patient.project, {name for name in (login.project, login.quota_project) if name})
    where = f"{patient.environment.path.name}: project: {patient.project}"
    return replace(
        finding, evidence=(where, *finding.evidence), hint=f"{near}; {finding.hint}" if near else finding.hint
    )


async def quota_project(patient: Patient) -> Finding:
    """A person's login must say which project its calls count for; a service account has one of its own."""
    who = await identity(patient)
    login = who.login
    if login.kind != "authorized_user" or login.path is None:
        return skipped("only a person's login needs one")
    try:
        await patient.accelerator_types()
    except AccessError as error:
        if error.kind == "quota-project-missing" or (
            error.kind == "quota-project-denied" and login.quota_project != patient.project
        ):
            return replace(of_error(error), fix=_counting(login.path, patient.project))
        if error.kind == "quota-project-denied":
            raise
    except TpuopsError:
        pass  # whatever else it was, another check tells
    if not login.quota_project:
        hint = f"`gcloud auth application-default set-quota-project {patient.project}`"
        what = "this login says no project that its calls count for; some APIs refuse that"
        return warning("quota-project-missing", what, hint=hint, fix=_counting(login.path, patient.project))
    return ok(f"calls count for {login.quota_project}")


def _counting(path: Path, name: str) -> Fix:
    async def run() -> None:
        document = {**json.loads(path.read_bytes()), "quota_project_id": name}
        write_private(path, json.dumps(document, indent=2))

    command = f"gcloud auth application-default set-quota-project {name}"
    return Fix(f"write {name} as the quota project into {path}", run, command)


async def apis(patient: Patient) -> Finding:
    """Which APIs are on; those that are off can be enabled."""
    name = patient.project
    path = f"/v1/projects/{name}/services"
    try:
        found = await patient.caller.ask(
            "serviceusage.services.list",
            name,
            lambda: patient.rest.pages("serviceusage", path, "services", {"filter": "state:ENABLED", "pageSize": 200}),
        )
    except AccessError as error:
        return await _by_calling(patient, error)
    enabled = {service["config"]["name"] for service in found}
    # What the list calls enabled may take minutes to work (training-on-tpu.md G6).
    off = [api for api in NEEDED if api not in enabled] or await _off(patient)
    if off:
        return _disabled(patient, off)
    lacking = [api for api in WANTED if api not in enabled]
    if lacking:
        what = f"{', '.join(lacking)} is off: {WANTED[lacking[0]]}"
        return warning("api-disabled", what, hint=_command(lacking, name), fix=_enabling(patient, lacking))
    return ok(f"{len(NEEDED)} that are needed are on", [f"{api}: {why}" for api, why in NEEDED.items()])


async def _by_calling(patient: Patient, error: AccessError) -> Finding:
    """Without leave to read the list, calls tell."""
    off = await _off(patient)
    if off:
        return _disabled(patient, off)
    if error.kind == "permission-denied":
        return ok("those that are needed answer", [f"the list of APIs cannot be read: {error.message}"])
    raise error


def _disabled(patient: Patient, off: list[str]) -> Finding:
    count = "an API is" if len(off) == 1 else f"{len(off)} APIs are"
    return broken(
        "api-disabled",
        f"{count} not enabled in this project: {', '.join(off)}",
        evidence=[f"{api}: {NEEDED[api]}" for api in off],
        hint=f"`{_command(off, patient.project)}`, then wait some minutes; or `{patient.typed('doctor', '--fix')}`",
        fix=_enabling(patient, off),
    )


def _command(off: list[str], name: str) -> str:
    return f"gcloud services enable {' '.join(off)} --project={name}"


async def _off(patient: Patient) -> list[str]:
    """The needed APIs that say themselves that they are off."""
    probes: Mapping[str, Callable[[], Awaitable[object]]] = {
        "tpu.googleapis.com": lambda: patient.cloud.accelerator_types(patient.desired.node.place),
        "compute.googleapis.com": lambda: patient.cloud.project_number(patient.project),
        "storage.googleapis.com": lambda: patient.cloud.bucket(patient.desired.bucket.name),
    }
    found = await asyncio.gather(*(_is_off(probe) for probe in probes.values()))
    return [api for api, is_off in zip(probes, found, strict=True) if is_off]


async def _is_off(probe: Callable[[], Awaitable[object]]) -> bool:
    try:
        await probe()
    except AccessError as error:
        return error.kind == "api-disabled"
    except TpuopsError:
        return False
    return False


def _enabling(patient: Patient, off: list[str]) -> Fix:
    async def run() -> None:
        path = f"/v1/projects/{patient.project}/services:batchEnable"
        await patient.caller.ask(
            "serviceusage.services.batchEnable",
            patient.project,
            lambda: patient.rest.json("serviceusage", "POST", path, body={"serviceIds": off}),
        )
        await _until_on(patient)

    return Fix(f"enable {', '.join(off)} in {patient.project}", run, _command(off, patient.project))


async def _until_on(patient: Patient) -> None:
    clock = patient.clock
    end, pause = clock.monotonic() + ENABLING_S, FIRST_LOOK_S
    while off := await _off(patient):
        if clock.monotonic() > end:
            raise AccessError(f"{', '.join(off)} is enabled, and does not answer yet", hint="try again in some minutes")
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK_S)


async def zone(patient: Patient) -> Finding:
    """That the TPU service answers for the zone: some are open to some projects only."""
    place = patient.desired.node.place
    try:
        types = await patient.accelerator_types()
    except (NotFound, Refused) as error:
        what = f"the TPU service knows no zone {place.zone} for this project"
        return broken("location-closed", what, evidence=error.evidence, hint="choose another `zone:`", exit_code=2)
    return ok(f"{place.zone} has {len(types)} accelerator types")


CHECKS = (
    Check("project", project, needs=("credentials", "scopes"), timeout_s=40),
    Check("quota-project", quota_project, needs=("credentials", "scopes", "project"), timeout_s=40),
    Check("apis", apis, needs=("credentials", "scopes", "project", "quota-project"), timeout_s=40),
    Check("zone", zone, needs=("credentials", "scopes", "project", "quota-project", "apis"), timeout_s=40),
)
