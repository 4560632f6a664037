"""What a refusal means: from one answer to one class of `errors`, named by what to do next.

Pure. Order of evidence: ErrorInfo or legacy reason, then an attached QuotaFailure, then the text, then the code, since
both quota and stockout are code 8 and a 403 may be either (google-cloud.md 2.4, 3.3.3, 5.7, 5.8).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tpuops.cloud.answers import Answer
from tpuops.cloud.login import LOGIN
from tpuops.errors import (
    AccessError,
    CloudError,
    Conflict,
    NoCapacity,
    NotFound,
    QuotaExceeded,
    Refused,
    TpuopsError,
    Transient,
)
from tpuops.facts import roles

_REASONS: Mapping[str, type[CloudError]] = {
    "RATE_LIMIT_EXCEEDED": Transient,
    "rateLimitExceeded": Transient,
    "userRateLimitExceeded": Transient,
    "RESOURCE_OPERATION_RATE_EXCEEDED": Transient,
    "RESOURCE_NOT_READY": Transient,
    "resourceNotReady": Transient,
    "backendError": Transient,
    "internalError": Transient,
    "RESOURCE_QUOTA_EXCEEDED": QuotaExceeded,
    "QUOTA_EXCEEDED": QuotaExceeded,
    "quotaExceeded": QuotaExceeded,
    "resource_availability": NoCapacity,
    "ZONE_RESOURCE_POOL_EXHAUSTED": NoCapacity,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": NoCapacity,
    "insufficientCapacity": NoCapacity,
    "alreadyExists": Conflict,
    "RESOURCE_ALREADY_EXISTS": Conflict,
    "conditionNotMet": Conflict,
    "CONDITION_NOT_MET": Conflict,
    "notFound": NotFound,
    "RESOURCE_NOT_FOUND": NotFound,
}


class _Access(NamedTuple):
    """What only a person can mend: its class for scripts, in plain words, and what to do.

    `{service}`, `{project}`, `{permission}`, `{resource}` and `{role}` are filled in.
    """

    kind: str
    what: str
    hint: str


_SCOPES = _Access(
    "scopes-insufficient",
    "the login lacks the cloud-platform scope",
    f"run `{LOGIN}` and leave every box ticked; on a machine of Google's, change its scopes while it is stopped",
)
_DISABLED = _Access(
    "api-disabled",
    "an API is not enabled in this project",
    "run `gcloud services enable {service} --project={project}` and wait some minutes, or `tpuops doctor --fix`",
)
_POLICY = _Access(
    "org-policy",
    "the organization's policy forbids it",
    "ask the organization's administrator for an exception to the constraint that is named above",
)
_GONE = _Access("project-wrong", "the project is suspended or being deleted", "ask the project's owner")

_ACCESS: Mapping[str, _Access] = {
    "SERVICE_DISABLED": _DISABLED,
    "accessNotConfigured": _DISABLED,
    "SERVICE_NOT_VISIBLE": _DISABLED,
    "BILLING_DISABLED": _Access(
        "billing-disabled",
        "billing is not enabled for this project",
        "link a billing account: `gcloud billing projects link {project} --billing-account=ACCOUNT` (`gcloud billing "
        "accounts list` shows yours)",
    ),
    "CONSUMER_INVALID": _Access(
        "project-wrong",
        "there is no such project, or this login may not see it",
        "check `project:`; `gcloud projects list` shows the ids",
    ),
    "RESOURCE_PROJECT_INVALID": _Access(
        "project-wrong",
        "there is no such project, or this login may not see it",
        "check `project:`; `gcloud projects list` shows the ids",
    ),
    "CONSUMER_SUSPENDED": _GONE,
    "GCP_SUSPENDED": _GONE,
    "QUOTA_PROJECT": _Access(
        "quota-project-missing",
        "this login says no project that its calls count for",
        "run `gcloud auth application-default set-quota-project {project}`",
    ),
    "USER_PROJECT_DENIED": _Access(
        "quota-project-denied",
        "this login may not use the quota project",
        "ask for roles/serviceusage.serviceUsageConsumer on it, or run "
        "`gcloud auth application-default set-quota-project PROJECT` with another one",
    ),
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT": _SCOPES,
    "insufficientPermissions": _SCOPES,
    "CREDENTIALS_MISSING": _Access("credentials-none", "the call was made without a login", f"run `{LOGIN}`"),
    "ACCESS_TOKEN_EXPIRED": _Access("credentials-expired", "the login has expired", f"run `{LOGIN}`"),
    "ACCOUNT_STATE_INVALID": _Access(
        "credentials-account",
        "the account of this login is disabled or deleted",
        f"ask the account's administrator, or run `{LOGIN}` as somebody else",
    ),
    "USER_BLOCKED_BY_ADMIN": _Access(
        "credentials-account", "an administrator blocked this account here", "ask the organization's administrator"
    ),
    "LOCATION_POLICY_VIOLATED": _Access(
        "location-closed",
        "this project may not use that location",
        "ask Google to enable the zone for the project (research grants name it), or choose another zone",
    ),
    "LOCATION_ORG_POLICY_VIOLATED": _Access(
        "org-policy",
        "the organization's policy forbids that location",
        "choose another zone, or ask the organization's administrator",
    ),
    "ORG_POLICY": _POLICY,
    "ORG_RESTRICTION_VIOLATION": _POLICY,
    "RESOURCE_USAGE_RESTRICTION_VIOLATED": _POLICY,
    "SECURITY_POLICY_VIOLATED": _POLICY,
    "IAM_PERMISSION_DENIED": _Access(
        "permission-denied",
        "this login lacks {permission} on {resource}",
        "ask the project's owner for {role} with {permission}; `tpuops doctor` shows every role that is needed",
    ),
}

_TEXTS: tuple[tuple[re.Pattern[str], type[CloudError] | str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (r"no more capacity in the zone", NoCapacity),
        (r"insufficient (?:reserved )?capacity", NoCapacity),
        (r"does not have enough resources available", NoCapacity),
        (r"VM instance is currently unavailable in the", NoCapacity),
        (r"not supported while in state (?:PREEMPTED|TERMINATED)", NoCapacity),
        (r"not supported while in state", Conflict),
        (r"(?:requests?|queries) per minute|rate limit|reduce your request rate", Transient),
        (r"quota limit .* (?:has been )?exceeded|quota .* exceeded|exceeded .*quota", QuotaExceeded),
        (r"insufficient authentication scopes|scope\(s\) are not authorized", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
        (r"has not been used in project .* before or it is disabled", "SERVICE_DISABLED"),
        (r"permission denied on resource project", "CONSUMER_INVALID"),
        (r"permission denied on 'locations/|location .* access is unauthorized", "LOCATION_POLICY_VIOLATED"),
        (r"permission '[\w.]+' denied", "IAM_PERMISSION_DENIED"),
        (r"does not have [\w.]+ access", "IAM_PERMISSION_DENIED"),
        (r"prohibited by organization's policy", "ORG_POLICY"),
        (r"requires billing to be enabled", "BILLING_DISABLED"),
    )
)

_STATUSES: Mapping[int, type[CloudError]] = {
    0: Transient,
    403: Refused,
    404: NotFound,
    408: Transient,
    409: Conflict,
    412: Conflict,
    429: Transient,
}


_CONSTRAINT = re.compile(r"[Cc]onstraint `?constraints/\S+ violated")


def classify(method: str, resource: str, answer: Answer) -> TpuopsError:
    """The error to raise for an answer: a `CloudError`, or an `AccessError` where only a person can help."""
    meaning = _meaning(answer)
    if method == "storage.buckets.get" and meaning == "IAM_PERMISSION_DENIED":
        # Bucket names are global: a 403 on reading one mostly means that it is somebody else's (google-cloud.md 4.5).
        return _closed_bucket(method, resource, answer)
    if isinstance(meaning, str):
        return _access(meaning, method, resource, answer)
    error = meaning(
        f"{_WORDS.get(meaning, 'Google refused')}: {answer.message}",
        method=method,
        resource=resource,
        status=answer.status,
        reason=answer.reason or answer.name,
        hint=_HINTS.get(meaning, "") if answer.status else _UNANSWERED,
    )
    if isinstance(error, Transient):
        error.retry_after_s = answer.retry_after_s
    return error


def _closed_bucket(method: str, resource: str, answer: Answer) -> Refused:
    hint = "take another name, or ask the project's owner for roles/storage.admin; `tpuops doctor` tells which it is"
    return Refused(
        f"the bucket {resource} is another project's, or this login lacks storage.buckets.get: {answer.message}",
        method=method,
        resource=resource,
        status=answer.status,
        reason=answer.reason or answer.name,
        hint=hint,
    )


def _meaning(answer: Answer) -> type[CloudError] | str:
    """The class, or the key of `_ACCESS`."""
    message = answer.message
    if "requires a quota project" in message:
        return "QUOTA_PROJECT"  # its reason is SERVICE_DISABLED, in a project of gcloud's own (google-cloud.md 5.8)
    if _CONSTRAINT.search(message):
        return "ORG_POLICY"  # its reason is that of a failed precondition
    if answer.reason in _REASONS:
        return _REASONS[answer.reason]
    if answer.reason in _ACCESS and answer.status in {400, 401, 403}:
        return answer.reason
    if answer.quota:
        return QuotaExceeded
    for pattern, meaning in _TEXTS:
        if pattern.search(message) and (not isinstance(meaning, str) or answer.status in {400, 401, 403}):
            return meaning
    return _by_status(answer)


def _by_status(answer: Answer) -> type[CloudError] | str:
    if answer.status == 401:
        return "ACCESS_TOKEN_EXPIRED"
    if answer.status == 429 and answer.late:
        # An admitted request that ends exhausted without a word of quota is a stockout (google-cloud.md 2.3).
        return NoCapacity
    if answer.status >= 500 and answer.status != 501:
        return Transient
    return _STATUSES.get(answer.status, Refused)


def _access(key: str, method: str, resource: str, answer: Answer) -> AccessError:
    kind, what, hint = _ACCESS[key]
    found = re.search(r"[Pp]ermission '([\w.]+)'|does not have ([\w.]+) access", answer.message)
    permission = answer.metadata.get("permission") or (found and (found[1] or found[2])) or method
    role = roles.holding(permission)
    known = {
        "service": answer.metadata.get("service") or f"{method.partition('.')[0]}.googleapis.com",
        "project": _project(method, resource, answer),
        "permission": permission,
        "resource": answer.metadata.get("resource") or resource or "the project",
        "role": role.name if role else "a role",
    }
    evidence = [answer.message, f"{method} {resource}".strip(), f"status {answer.status} {answer.reason}".strip()]
    return AccessError(what.format(**known), evidence=evidence, hint=hint.format(**known), kind=kind)


def _project(method: str, resource: str, answer: Answer) -> str:
    """The project that a call was about, where its resource's name, or the answer, says it."""
    if resource and method.startswith(("compute.projects.", "serviceusage.", "resourcemanager.")):
        return resource
    named = re.match(r"projects/([^/_]+)", resource) or re.match(r"projects/(.+)", answer.metadata.get("consumer", ""))
    return named[1] if named else "PROJECT"


_WORDS: Mapping[type[CloudError], str] = {
    Transient: "a passing fault",
    NoCapacity: "no capacity",
    QuotaExceeded: "a quota of the project is used up",
    Conflict: "somebody else was first",
    NotFound: "not there",
}

_UNANSWERED = "look at this machine's network, then type the same command again: it looks at what stands before it acts"

_HINTS: Mapping[type[CloudError], str] = {
    NoCapacity: "try again later, or another zone",
    QuotaExceeded: "use another zone or type, or ask for quota in the Cloud console (IAM & Admin, Quotas)",
}
