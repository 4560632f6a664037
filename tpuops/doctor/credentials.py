"""Who asks: the login in force, what it was granted, which project its calls count for, and gcloud's own beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tpuops.cloud.identity import Identity, identify
from tpuops.cloud.login import LOGIN, VARIABLE, in_force, machine_server
from tpuops.doctor.finding import Check, Finding, Fix, broken, of_error, ok, skipped, warning
from tpuops.doctor.patient import Patient
from tpuops.errors import AccessError, TpuopsError
from tpuops.facts.roles import SCOPE
from tpuops.remote import local

KINDS: Mapping[str, str] = {
    "authorized_user": "a person's login",
    "service_account": "a service account's key",
    "impersonated_service_account": "a login that acts as a service account",
    "external_account": "a federated login",
    "external_account_authorized_user": "a federated person's login",
    "gdch_service_account": "a service account's key for a cloud of one's own",
    "machine": "this machine's own service account",
}
RELOGIN = frozenset(
    {
        *("credentials-none", "credentials-broken", "credentials-expired", "credentials-revoked"),
        *("credentials-reauth", "scopes-insufficient"),
    }
)
"""Classes that a new login of the person mends."""


async def identity(patient: Patient) -> Identity:
    """Who the login in force is, asked once a look. Raises `AccessError`."""
    return await patient.shared.once("identity", lambda: identify(patient.place, patient.caller))


async def credentials(patient: Patient) -> Finding:
    """Which login is in force and why, who it is, and how long its token lives."""
    try:
        who = await identity(patient)
        await _accepted(patient)
    except AccessError as error:
        return _with_login(patient, _with_command(patient, of_error(error)))
    login = who.login
    if who.is_anonymous:
        return ok("the embedded cloud asks for no login", [login.passed_over.message] if login.passed_over else [])
    lines = [login.why, *([f"file: {login.path}"] if login.path else [])]
    lines += [f"the login's own project: {login.project}"] if login.project else []
    if who.expires_in_s is not None:
        lines.append(f"its token lives for {who.expires_in_s // 60} min more, and is renewed by itself")
    return ok(f"{who.email or 'somebody without an address'}, by {KINDS[login.kind]}", lines)


async def _accepted(patient: Patient) -> None:
    """Raise where an API refuses the login itself; what else it may object to is for other checks."""
    try:
        await patient.number()
    except AccessError as error:
        if error.kind.startswith("credentials"):
            raise await _explained(patient, error) from error
    except TpuopsError:
        return


async def _explained(patient: Patient, error: AccessError) -> AccessError:
    """With the reason why a login that is there was not sent, and the way in that this cloud has."""
    if not patient.place.local or error.kind != "credentials-none":
        return error
    passed_over = (await identity(patient)).login.passed_over
    hint = f"`python -m tpuops.localcloud key` makes a key of the embedded cloud's; point {VARIABLE} to its file"
    words = "there is no login that the embedded cloud issued"
    return passed_over or AccessError(words, evidence=error.evidence, hint=hint, kind=error.kind)


def _with_command(patient: Patient, finding: Finding) -> Finding:
    """Whose leave is missing to act as which account, as its owner types it."""
    if finding.kind != "impersonation-denied":
        return finding
    account = in_force(patient.place).account
    command = f"gcloud iam service-accounts add-iam-policy-binding {account} --member=user:YOU"
    return replace(finding, hint=f"the account's owner types `{command} --role=roles/iam.serviceAccountTokenCreator`")


def _with_login(patient: Patient, finding: Finding) -> Finding:
    """With the login that mends it, where that would help: a variable that names a file outranks any login."""
    if finding.kind not in RELOGIN or patient.place.local or os.environ.get(VARIABLE) is not None or machine_server():
        return finding
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.uname().sysname == "Darwin")
    command = [*LOGIN.split(), *([] if has_screen else ["--no-launch-browser"])]

    async def run() -> None:
        code = await local.handed_over(*command)
        if code:
            raise AccessError(f"{' '.join(command)} ended with {code}", hint="is gcloud installed?")

    what = "log in to Google, which asks you who you are in a browser"
    return replace(finding, fix=Fix(what, run, " ".join(command), needs_person=True))


async def scopes(patient: Patient) -> Finding:
    """What the login was really granted: tokeninfo, on a machine the metadata server."""
    who = await identity(patient)
    if who.is_anonymous:
        return skipped("calls without a login have no scopes")
    if SCOPE in who.scopes:
        return ok("cloud-platform, which is all that is needed", [" ".join(who.scopes)])
    if not who.scopes:
        return warning("scopes-unknown", "nobody says what this login was granted; a refused call will tell")
    hint = f"run `{LOGIN}` and leave every box ticked"
    if who.login.kind == "machine":
        hint = (
            "with this machine stopped: `gcloud compute instances set-service-account NAME --scopes=cloud-platform`"
            f" (or use a login of your own: `{LOGIN}`)"
        )
    what = "the login was not granted the cloud-platform scope"
    finding = broken("scopes-insufficient", what, evidence=[f"granted: {' '.join(who.scopes)}"], hint=hint)
    return _with_login(patient, finding)


async def gcloud(patient: Patient) -> Finding:
    """gcloud does not use the login that tpuops uses, nor the other way round: both are named."""
    asked = await _gcloud("config", "list", "--format=json")
    if asked is None:
        return skipped("gcloud is not installed; tpuops itself needs it only for `gcloud auth`")
    core, auth = asked.get("core", {}), asked.get("auth", {})
    account, project = core.get("account", ""), core.get("project", "")
    acts_as = auth.get("impersonate_service_account", "")
    lines = [f"gcloud's account: {account or 'none'}", f"gcloud's project: {project or 'none'}"]
    if acts_as:
        lines.append(f"gcloud acts as {acts_as}; tpuops does not")
    who = await _known(patient)
    mine = who.email if who else ""
    theirs = acts_as or account
    if theirs and mine and theirs != mine:
        what = f"gcloud is {theirs}, tpuops is {mine}: commands that you type act as somebody else"
        hint = f"`gcloud config set account {mine}`, or `{LOGIN}` as {theirs}"
        return warning("gcloud-identity", what, evidence=lines, hint=hint)
    if project and project != patient.project and not patient.place.local:
        hint = f"`gcloud config set project {patient.project}`, or name it with every command"
        return warning("gcloud-project", f"gcloud works in {project}, this environment in {patient.project}",
                       evidence=lines, hint=hint)  # fmt: skip
    return ok(f"{theirs or 'nobody'} in {project or 'no project'}", lines)


async def _known(patient: Patient) -> Identity | None:
    try:
        return await identity(patient)
    except TpuopsError:
        return None


async def _gcloud(*words: str) -> Mapping[str, Any] | None:
    """What gcloud says in JSON; None where it is not installed. Raises `AccessError` where it breaks."""
    done = await local.ran("gcloud", *words, timeout_s=60)
    if done.code == local.NOT_FOUND:
        return None
    try:
        found = json.loads(done.out or "{}")
    except ValueError:
        found = None
    if done.code or not isinstance(found, dict):
        seen = (done.err or done.out).strip().splitlines()[-6:]
        raise AccessError("gcloud itself does not work", evidence=seen, hint="`gcloud info` says more", kind="gcloud")
    return found


CHECKS = (
    Check("credentials", credentials, timeout_s=40),
    Check("scopes", scopes, needs=("credentials",), timeout_s=40),
    Check("gcloud", gcloud, timeout_s=60),
)
