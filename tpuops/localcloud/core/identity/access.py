"""Who may call what: APIs that are off, and, where it is switched on, scopes and IAM as two filters in a row.

Permissive until `POST /_cloud/access` (or a fault script's `access`) says otherwise. Its document, all fields optional:
    enforce: true                   scopes and IAM count from now on
    bindings: {email: [roles, permissions or patterns]}     on every project, beside the projects' and buckets' policies
    anonymous: {email, scopes}      who a call without a token is; without it such a call is 401 while enforced
    user_scopes: [...]              what the user's own tokens are good for from now on
    disabled: [tpu.googleapis.com]  APIs that are off      enable_delay_s: 2    how late an enabling takes effect
    projects: [local-p]             the only projects there are
    logins: {TOKEN: {email, scopes, error, description, subtype}}   what becomes of refresh tokens (tokens.py)
    pools: [audience]               the only workload identity providers there are (federation.py)
    unbilled, zones, quota_project  further obstacles (obstacles.py)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpuops.localcloud.core.draw import default_account, project_number
from tpuops.localcloud.core.identity import obstacles, permissions, tokens
from tpuops.localcloud.core.identity.obstacles import info as _info
from tpuops.localcloud.core.refusals import Refusal, refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document, World

FIELDS = {
    *("enforce", "bindings", "anonymous", "user_scopes", "disabled", "enable_delay_s", "projects"),
    *("logins", "pools", "unbilled", "zones", "quota_project"),
}
APIS: Mapping[str, tuple[str, str]] = {
    # Service of a method: the API's name and title.
    "tpu": ("tpu.googleapis.com", "Cloud TPU API"),
    "compute": ("compute.googleapis.com", "Compute Engine API"),
    "storage": ("storage.googleapis.com", "Cloud Storage JSON API"),
    "serviceusage": ("serviceusage.googleapis.com", "Service Usage API"),
    "cloudquotas": ("cloudquotas.googleapis.com", "Cloud Quotas API"),
    "iam": ("iam.googleapis.com", "Identity and Access Management (IAM) API"),
    "resourcemanager": ("cloudresourcemanager.googleapis.com", "Cloud Resource Manager API"),
    "oslogin": ("oslogin.googleapis.com", "Cloud OS Login API"),
    "iap": ("iap.googleapis.com", "Cloud Identity-Aware Proxy API"),
    "iamcredentials": ("iamcredentials.googleapis.com", "IAM Service Account Credentials API"),
    "secretmanager": ("secretmanager.googleapis.com", "Secret Manager API"),
}
ACCOUNT_POLICY = "iam.account-policy"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and with which scopes."""

    email: str
    scopes: frozenset[str]


def rules(world: World) -> Document:
    """What was set."""
    return world.get("cloud", "access") or {}


def change(world: World, wanted: Any) -> Document:
    """Set the fields given. Raises ValueError."""
    if not isinstance(wanted, dict) or set(wanted) - FIELDS:
        raise ValueError(f"access: knows {sorted(FIELDS)}")
    changed = {**rules(world), **wanted}
    if "disabled" in wanted:
        changed["disabled"] = {name: None for name in wanted["disabled"]}  # None: off until it is enabled
    return world.put("cloud", "access", changed)


def check(call: Call, *, mutating: bool) -> None:
    """Raise the first refusal that stands in the call's way."""
    service = call.method.partition(".")[0]
    set_rules = rules(call.world)
    if not set_rules or service not in APIS:
        return
    project = call.params.get("project") or call.query.get("project") or _of_bucket(call)
    _check_project(set_rules, project, service)
    _check_enabled(call, set_rules, service, project)
    obstacles.check(call, set_rules, APIS[service][0], project)
    known = caller_of(call)
    if known is not None:
        obstacles.check_quota_project(call, set_rules, APIS[service][0], known.email)
    if set_rules.get("enforce"):
        caller = _caller(call, set_rules)
        _check_user_project(call, caller)
        _check_scope(call, caller, service, mutating)
        _check_permission(call, caller, set_rules, project)


def may(call: Call, wanted: str) -> bool:
    """Whether the caller has a permission on what the call is about; everybody where permissions do not count."""
    set_rules, caller = rules(call.world), caller_of(call)
    if not set_rules.get("enforce"):
        return True
    if caller is None:
        return False
    held = [*set_rules.get("bindings", {}).get(caller.email, ()), *_policies(call, caller.email, "")]
    return permissions.grants([*held, *held_by(call.world, caller.email, call.params.get("project", ""))], wanted)


def held_by(world: World, email: str, project: str) -> list[str]:
    """The roles and permissions somebody has on a project."""
    policy = world.get("iam.policy", project) or {"bindings": []}
    return [*rules(world).get("bindings", {}).get(email, ()), *_of_policy(policy, email)]


def require(call: Call, wanted: str, project: str, resource: str) -> None:
    """Raise where permissions count and the caller lacks this one on a project."""
    set_rules = rules(call.world)
    if not set_rules.get("enforce"):
        return
    caller = _caller(call, set_rules)
    if not permissions.grants(held_by(call.world, caller.email, project), wanted):
        raise _denied(wanted, resource, caller.email)


def held_on_account(world: World, email: str, account: str) -> list[str]:
    """The roles somebody has on one service account."""
    return list(_of_policy(world.get(ACCOUNT_POLICY, account) or {}, email))


def caller_of(call: Call) -> Caller | None:
    """Who calls, where that is known."""
    try:
        return _caller(call, rules(call.world))
    except Refusal:
        return None


def show(call: Call) -> Answer:
    """GET /_cloud/access."""
    return rules(call.world)


def put(call: Call) -> Answer:
    """POST /_cloud/access."""
    try:
        return change(call.world, json.loads(call.request.body))
    except ValueError as problem:
        raise refuse("cloud.argument", problem=problem) from problem


def _check_project(set_rules: Document, project: str, service: str) -> None:
    known = set_rules.get("projects")
    if known and project and project not in known and not project.endswith("-cloud"):
        metadata = {"consumer": f"projects/{project}", "service": APIS[service][0]}
        raise refuse("access.project", (_info("CONSUMER_INVALID", metadata),), project=project)


def _check_enabled(call: Call, set_rules: Document, service: str, project: str) -> None:
    name, title = APIS[service]
    if service == "serviceusage" or name not in set_rules.get("disabled", {}):
        return
    enabled_at = set_rules["disabled"][name]
    if enabled_at is not None and enabled_at <= call.now:
        return
    number = project_number(project) if project else "0"
    metadata = {"consumer": f"projects/{number}", "service": name, "serviceTitle": title}
    raise refuse("access.disabled", (_info("SERVICE_DISABLED", metadata),), title=title, number=number, service=name)


def _caller(call: Call, set_rules: Document) -> Caller:
    scheme, _, token = call.request.headers.get("authorization", "").partition(" ")
    if not token or scheme.lower() != "bearer":
        if not set_rules.get("anonymous"):
            raise refuse("access.none", (_info("CREDENTIALS_MISSING", {}),))
        someone = set_rules["anonymous"]
        return Caller(str(someone["email"]), frozenset(someone.get("scopes") or tokens.USER_SCOPES))
    found = tokens.bearer(call.world, token.strip(), call.now)
    if found is None:
        raise refuse("access.expired", (_info("ACCESS_TOKEN_EXPIRED", {}),))
    return Caller(found[0], frozenset(found[1]))


def _check_scope(call: Call, caller: Caller, service: str, mutating: bool) -> None:
    wanted = permissions.scopes(call.method, mutating=mutating)
    if wanted & caller.scopes:
        return
    metadata = {"service": APIS[service][0], "method": call.method}
    refusal = refuse("access.scope", (_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", metadata),))
    listed = " ".join(sorted(wanted))
    challenge = f'Bearer realm="https://accounts.google.com/", error="insufficient_scope", scope="{listed}"'
    refusal.headers = {"WWW-Authenticate": challenge}
    raise refusal


def _check_permission(call: Call, caller: Caller, set_rules: Document, project: str) -> None:
    if call.method in permissions.OPEN:
        return
    held = [*set_rules.get("bindings", {}).get(caller.email, ()), *_policies(call, caller.email, project)]
    for wanted in _wanted(call):
        more = _on_attached(call, caller.email, project) if wanted == permissions.ACT_AS else ()
        if not permissions.grants((*held, *more), wanted):
            raise _denied(wanted, _resource(call, project), caller.email)


def _of_bucket(call: Call) -> str:
    """The project of the bucket that is called, by its id where a call named it before."""
    bucket = call.world.get("storage.bucket", call.params.get("bucket", "")) or {}
    number = str(bucket.get("projectNumber", ""))
    return str((call.world.get("cloud", "projects") or {}).get(number, ""))


def _wanted(call: Call) -> Iterator[str]:
    yield permissions.permission(call.method)
    if call.method in permissions.ATTACHING:
        yield permissions.ACT_AS
    if call.method == "storage.objects.insert":
        name = f"{call.params['bucket']}/{call.query.get('name', '')}"
        if call.world.get("storage.object", name) is not None:
            yield "storage.objects.delete"  # overwriting is deleting too


def _on_attached(call: Call, email: str, project: str) -> list[str]:
    """The roles that the caller has on the account which the machine will carry."""
    body = call.body()
    named = [*(body.get("serviceAccounts") or []), body.get("serviceAccount") or {}]
    account = str(named[0].get("email") or "default")
    return held_on_account(call.world, email, default_account(project) if account == "default" else account)


def _policies(call: Call, email: str, project: str) -> Iterator[str]:
    yield from _of_policy(call.world.get("iam.policy", project) or {}, email)
    if "bucket" in call.params:
        if call.world.get("storage.bucket", call.params["bucket"]) is None:  # any project's may be it
            for _, policy in call.world.items("iam.policy"):
                yield from _of_policy(policy, email)
        yield from _of_policy(call.world.get("storage.policy", call.params["bucket"]) or {}, email)


def _of_policy(policy: Document, email: str) -> Iterator[str]:
    meant = {f"user:{email}", f"serviceAccount:{email}", "allUsers", "allAuthenticatedUsers"}
    for binding in policy.get("bindings", []):
        if meant & set(binding.get("members", [])):
            yield binding["role"]


def _resource(call: Call, project: str) -> str:
    if "bucket" in call.params:
        return f"projects/_/buckets/{call.params['bucket']}"
    zone, name = call.params.get("zone"), call.params.get("node") or call.query.get("nodeId") or ""
    if call.method.startswith("tpu.") and zone:
        return f"projects/{project}/locations/{zone}" + (f"/nodes/{name}" if name else "")
    return f"projects/{project}" + (f"/zones/{zone}" if zone else "")


def _check_user_project(call: Call, caller: Caller) -> None:
    """Whoever has calls counted for a project must be allowed to use it."""
    project = call.request.headers.get(obstacles.HEADER, "")
    if project and not permissions.grants(held_by(call.world, caller.email, project), permissions.USE):
        metadata = {"consumer": f"projects/{project}", "service": APIS[call.method.partition(".")[0]][0]}
        raise refuse("access.user-project", (_info("USER_PROJECT_DENIED", metadata),), project=project)


def _denied(permission: str, resource: str, email: str) -> Refusal:
    info = _info("IAM_PERMISSION_DENIED", {"permission": permission, "resource": resource}, "iam.googleapis.com")
    return refuse("access.iam", (info,), permission=permission, resource=resource, email=email)
