"""What a refusal means: from one answer to one class of `errors`, named by what to do next.

Pure. Order of evidence: ErrorInfo or legacy reason, then an attached QuotaFailure, then the text, then the code, since
both quota and stockout are code 8 and a 403 may be either (google-cloud.md 2.4, 3.3.3, 5.7, 5.8).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tpuops.cloud.answers import Answer
from tpuops.cloud.credentials import LOGIN
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

_ACCESS: Mapping[str, tuple[str, str]] = {
    "SERVICE_DISABLED": ("an API is not enabled in this project", "run `gcloud services enable {service}`"),
    "accessNotConfigured": ("an API is not enabled in this project", "run `gcloud services enable {service}`"),
    "BILLING_DISABLED": ("billing is not enabled for this project", "link a billing account to the project"),
    "CONSUMER_INVALID": (
        "there is no such project, or this login may not see it",
        "check `project:`; `gcloud projects list` shows the ids",
    ),
    "CONSUMER_SUSPENDED": ("the project is suspended", "ask the project's owner"),
    "USER_PROJECT_DENIED": (
        "this login may not use the quota project",
        "ask for roles/serviceusage.serviceUsageConsumer, or run "
        "`gcloud auth application-default set-quota-project PROJECT`",
    ),
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT": (
        "the login lacks the cloud-platform scope",
        f"run `{LOGIN} --scopes=https://www.googleapis.com/auth/cloud-platform`",
    ),
    "insufficientPermissions": (
        "the login lacks the cloud-platform scope",
        f"run `{LOGIN} --scopes=https://www.googleapis.com/auth/cloud-platform`",
    ),
    "ACCESS_TOKEN_EXPIRED": ("the login has expired", f"run `{LOGIN}`"),
    "LOCATION_POLICY_VIOLATED": (
        "this project may not use that location",
        "ask Google to enable the zone for the project (research grants name it), or choose another zone",
    ),
    "LOCATION_ORG_POLICY_VIOLATED": (
        "the organization's policy forbids that location",
        "choose another zone, or ask the organization's administrator",
    ),
    "IAM_PERMISSION_DENIED": ("this login lacks a permission", "ask for a role that holds {permission}"),
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
        (r"requires a quota project", "USER_PROJECT_DENIED"),
        (r"has not been used in project .* before or it is disabled", "SERVICE_DISABLED"),
        (r"permission denied on resource project", "CONSUMER_INVALID"),
        (r"permission denied on 'locations/|location .* access is unauthorized", "LOCATION_POLICY_VIOLATED"),
        (r"permission '[\w.]+' denied", "IAM_PERMISSION_DENIED"),
        (r"does not have [\w.]+ access", "IAM_PERMISSION_DENIED"),
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


def classify(method: str, resource: str, answer: Answer) -> TpuopsError:
    """The error to raise for an answer: a `CloudError`, or an `AccessError` where only a person can help."""
    meaning = _meaning(answer)
    if method == "storage.buckets.get" and meaning == "IAM_PERMISSION_DENIED":
        # Bucket names are global: a 403 on reading one means that it is somebody else's (google-cloud.md 4.5).
        meaning = Refused
    if isinstance(meaning, str):
        return _access(meaning, method, resource, answer)
    return meaning(
        f"{_WORDS.get(meaning, 'Google refused')}: {answer.message}",
        method=method,
        resource=resource,
        status=answer.status,
        reason=answer.reason or answer.name,
        hint=_HINTS.get(meaning, ""),
    )


def _meaning(answer: Answer) -> type[CloudError] | str:
    """The class, or the key of `_ACCESS`."""
    if answer.reason in _REASONS:
        return _REASONS[answer.reason]
    if answer.reason in _ACCESS and answer.status in {400, 401, 403}:
        return answer.reason
    if answer.quota:
        return QuotaExceeded
    for pattern, meaning in _TEXTS:
        if pattern.search(answer.message) and (not isinstance(meaning, str) or answer.status in {400, 401, 403}):
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
    what, hint = _ACCESS[key]
    permission = re.search(r"[Pp]ermission '([\w.]+)'|does not have ([\w.]+) access", answer.message)
    known = {
        "service": answer.metadata.get("service") or f"{method.partition('.')[0]}.googleapis.com",
        "permission": answer.metadata.get("permission") or (permission and (permission[1] or permission[2])) or method,
    }
    evidence = [answer.message, f"{method} {resource}".strip(), f"status {answer.status} {answer.reason}".strip()]
    return AccessError(what, evidence=evidence, hint=hint.format(**known))


_WORDS: Mapping[type[CloudError], str] = {
    Transient: "a passing fault",
    NoCapacity: "no capacity",
    QuotaExceeded: "a quota of the project is used up",
    Conflict: "somebody else was first",
    NotFound: "not there",
}

_HINTS: Mapping[type[CloudError], str] = {
    NoCapacity: "try again later, or another zone",
    QuotaExceeded: "use another zone or type, or ask for quota in the Cloud console (IAM & Admin, Quotas)",
}
