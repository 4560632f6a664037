"""The words in which the services say no, at once or late: one table of codes, reasons and texts. Data only.

Texts marked `recorded` are verbatim from the real services (facts: google-cloud.md 2.4, 3.3, 4.3, 4.5, 4.6, 5.8); the
others follow the generic texts of their service. No code outside these tables invents an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STATUSES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Canonical status by HTTP code, where a refusal names none (google/rpc/code.proto)."""

LEGACY_REASONS: Mapping[int, str] = {
    400: "invalid",
    401: "authError",
    403: "forbidden",
    404: "notFound",
    409: "conflict",
    408: "uploadBrokenConnection",
    412: "conditionNotMet",
    416: "requestedRangeNotSatisfiable",
    429: "rateLimitExceeded",
    500: "backendError",
    503: "backendError",
}
"""Legacy JSON reason by HTTP code, where a refusal names none (google-cloud.md 3.3.3)."""


@dataclass(frozen=True, slots=True)
class Wording:
    """One row: HTTP code, canonical status (One Platform), reason (legacy JSON) and text."""

    http: int
    status: str
    reason: str
    text: str


TABLE: Mapping[str, Wording] = {
    # TPU (One Platform)
    "tpu.exists": Wording(409, "ALREADY_EXISTS", "", "Resource '{name}' already exists"),
    "tpu.absent": Wording(404, "NOT_FOUND", "", "Resource '{name}' was not found"),
    "tpu.argument": Wording(400, "INVALID_ARGUMENT", "", "Cloud TPU received a bad request. {problem} {eid}"),
    "tpu.type": Wording(  # recorded
        400,
        "INVALID_ARGUMENT",
        "",
        "Cloud TPU received a bad request. The requested accelerator configuration for accelerator type,"
        ' "{type}", could not be found in the zonal accelerator configurations for "{zone}".; the accelerator {type}'
        " was not found in zone {zone} {eid}",
    ),
    "tpu.zone": Wording(  # recorded
        400,
        "INVALID_ARGUMENT",
        "",
        'Cloud TPU received a bad request. The requested zone "{zone}" is not supported. {eid}',
    ),
    "tpu.location": Wording(  # recorded, with ErrorInfo LOCATION_POLICY_VIOLATED
        403, "PERMISSION_DENIED", "", "Permission denied on 'locations/{zone}' (or it may not exist)."
    ),
    "tpu.state": Wording(  # recorded for update in PREEMPTED
        400,
        "INVALID_ARGUMENT",
        "",
        "Cloud TPU received a bad request. {verb} is not supported while in state {state} {eid}",
    ),
    "tpu.stop-shape": Wording(
        400,
        "FAILED_PRECONDITION",
        "",
        "Cloud TPU received a bad request. stop is only available with single on-demand TPU nodes; {why} {eid}",
    ),
    "tpu.queue-alive": Wording(  # the rule is documented, the words are not (google-cloud.md 2.6)
        400,
        "FAILED_PRECONDITION",
        "",
        "Cloud TPU received a bad request. Queued resource {name} is in state {state}: delete its nodes and wait for"
        " SUSPENDED, or set force {eid}",
    ),
    "tpu.busy": Wording(409, "ABORTED", "", "Another operation is in progress on '{name}': {operation}"),
    "tpu.quota": Wording(  # recorded, with QuotaFailure
        429,
        "RESOURCE_EXHAUSTED",
        "",
        "Quota limit '{metric}' has been exceeded. Limit: {limit} in zone {zone}.",
    ),
    # Compute (legacy JSON)
    "compute.exists": Wording(409, "", "alreadyExists", "The resource '{name}' already exists"),  # recorded
    "compute.absent": Wording(404, "", "notFound", "The resource '{name}' was not found"),
    "compute.required": Wording(400, "", "required", "Required field '{field}' not specified"),
    "compute.invalid": Wording(400, "", "invalid", "Invalid value for field '{field}': '{value}'. {problem}"),
    "compute.stale": Wording(
        412, "", "conditionNotMet", "{what} fingerprint either invalid or resource labels have changed"
    ),
    "compute.running": Wording(  # the rule is documented, the words are not (google-cloud.md 3.2.2b)
        400, "", "resourceNotReady", "The instance '{name}' must be stopped before this operation can be performed."
    ),
    "compute.protected": Wording(
        400, "", "invalidResourceUsage", "Resource cannot be deleted if it's protected against deletion: '{name}'"
    ),
    "compute.in-use": Wording(
        400, "", "resourceInUseByAnotherResource", "The disk resource '{name}' is already being used by '{user}'"
    ),
    "compute.not-ready": Wording(400, "", "resourceNotReady", "The resource '{name}' is not ready"),
    "compute.no-guest": Wording(404, "", "notFound", "The resource '{name}' of type 'Guest Attribute' was not found."),
    "compute.quota": Wording(
        403, "", "quotaExceeded", "Quota '{metric}' exceeded.  Limit: {limit} in region {region}."
    ),
    # Storage (legacy JSON)
    "storage.no-bucket": Wording(404, "", "notFound", "The specified bucket does not exist."),
    "storage.no-object": Wording(404, "", "notFound", "No such object: {bucket}/{object}"),
    "constraint.address": Wording(  # recorded
        412,
        "",
        "conditionNotMet",
        "Constraint constraints/compute.vmExternalIpAccess violated for project {number}. Add instance {name} to the"
        " constraint to use external IP with it.",
    ),
    "constraint.node-address": Wording(
        400,
        "FAILED_PRECONDITION",
        "",
        "Constraint constraints/compute.vmExternalIpAccess violated for project {number}. Add instance {name} to the"
        " constraint to use external IP with it.",
    ),
    "constraint.violated": Wording(412, "", "conditionNotMet", "Request violates constraint 'constraints/{name}'"),
    "constraint.node": Wording(  # One Platform answers FAILED_PRECONDITION with 400 (google/rpc/code.proto)
        400, "FAILED_PRECONDITION", "", "Request violates constraint 'constraints/{name}'"
    ),
    "constraint.storage-location": Wording(  # recorded
        412, "", "conditionNotMet", "'{location}' violates constraint 'constraints/{name}'"
    ),
    "storage.owned": Wording(  # recorded
        409,
        "",
        "conflict",
        "Your previous request to create the named bucket succeeded and you already own it.",
    ),
    "storage.taken": Wording(  # recorded
        409,
        "",
        "conflict",
        "The requested bucket name is not available. The bucket namespace is shared by all users of the system."
        " Please select a different name and try again.",
    ),
    "storage.not-empty": Wording(409, "", "conflict", "The bucket you tried to delete is not empty."),
    "storage.condition": Wording(  # recorded
        412, "", "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
    ),
    "storage.unchanged": Wording(304, "", "notModified", ""),
    "storage.range": Wording(416, "", "requestedRangeNotSatisfiable", "Request range not satisfiable"),
    "storage.invalid": Wording(400, "", "invalid", "{problem}"),
    "storage.required": Wording(400, "", "required", "Required parameter: {field}"),
    "storage.rate": Wording(  # recorded
        429,
        "",
        "rateLimitExceeded",
        "The object {bucket}/{object} exceeded the rate limit for object mutation operations (create, update, and"
        " delete). Please reduce your request rate. See https://cloud.google.com/storage/docs/gcs429.",
    ),
    "storage.hash": Wording(
        400, "", "invalid", 'Provided {kind} hash "{given}" doesn\'t match calculated {kind} hash "{found}".'
    ),
    "storage.held": Wording(
        403,
        "",
        "forbidden",
        "Object '{bucket}/{object}' is under active {kind} hold and cannot be deleted, overwritten or archived until"
        " hold is removed.",
    ),
    "storage.retained": Wording(
        403,
        "",
        "retentionPolicyNotMet",
        "Object '{bucket}/{object}' is subject to bucket's retention policy or object retention and cannot be deleted"
        " or overwritten until {until}",
    ),
    "storage.uniform": Wording(
        400,
        "",
        "invalid",
        "Cannot insert legacy ACL for an object when uniform bucket-level access is enabled. Read more at"
        " https://cloud.google.com/storage/docs/uniform-bucket-level-access",
    ),
    "storage.public": Wording(
        412,
        "",
        "conditionNotMet",
        "The member bindings allUsers and allAuthenticatedUsers are not allowed since public access prevention is"
        " enforced.",
    ),
    "storage.no-upload": Wording(404, "", "notFound", "The upload session does not exist."),
    # OS Login (One Platform)
    "oslogin.absent": Wording(404, "NOT_FOUND", "", "SSH public key not found: {name}"),
    "oslogin.format": Wording(400, "INVALID_ARGUMENT", "", "The ssh public key is not in a valid format."),
    # Secret Manager (One Platform)
    "secret.exists": Wording(409, "ALREADY_EXISTS", "", "Secret [{secret}] already exists."),
    "secret.absent": Wording(404, "NOT_FOUND", "", "Secret [{secret}] not found or has no versions."),  # recorded
    "secret.state": Wording(400, "FAILED_PRECONDITION", "", "Secret Version [{version}] is in {state} state."),
    "secret.argument": Wording(400, "INVALID_ARGUMENT", "", "{problem}"),
    # Access, before any service (google-cloud.md 5.7, 5.8)
    "access.none": Wording(
        401,
        "UNAUTHENTICATED",
        "required",
        "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other"
        " valid authentication credential.",
    ),
    "access.expired": Wording(401, "UNAUTHENTICATED", "authError", "Request had invalid authentication credentials."),
    "access.scope": Wording(  # recorded
        403, "PERMISSION_DENIED", "insufficientPermissions", "Request had insufficient authentication scopes."
    ),
    "access.iam": Wording(
        403, "PERMISSION_DENIED", "forbidden", "Permission '{permission}' denied on '{resource}' for {email}"
    ),
    "access.project": Wording(  # recorded
        403, "PERMISSION_DENIED", "forbidden", "Permission denied on resource project {project}."
    ),
    "access.disabled": Wording(  # recorded
        403,
        "PERMISSION_DENIED",
        "accessNotConfigured",
        "{title} has not been used in project {number} before or it is disabled. Enable it by visiting"
        " https://console.developers.google.com/apis/api/{service}/overview?project={number} then retry. If you enabled"
        " this API recently, wait a few minutes for the action to propagate to our systems and retry.",
    ),
    "access.no-service": Wording(
        403, "PERMISSION_DENIED", "forbidden", "Not found or permission denied for {service}."
    ),
    "access.billing": Wording(  # recorded
        403,
        "PERMISSION_DENIED",
        "forbidden",
        "This API method requires billing to be enabled. Please enable billing on project #{number} by visiting"
        " https://console.developers.google.com/billing/enable?project={number} then retry.",
    ),
    "access.zone": Wording(  # recorded
        403, "PERMISSION_DENIED", "forbidden", "Permission denied on 'locations/{zone}' (or it may not exist)."
    ),
    "access.quota-project": Wording(  # recorded
        403,
        "PERMISSION_DENIED",
        "forbidden",
        "Your application is authenticating by using local Application Default Credentials. The {service} API requires"
        " a quota project, which is not set by default.",
    ),
    "access.user-project": Wording(  # recorded
        403,
        "PERMISSION_DENIED",
        "forbidden",
        "Caller does not have required permission to use project {project}. Grant the caller the"
        " roles/serviceusage.serviceUsageConsumer role, or a custom role with the serviceusage.services.use"
        " permission.",
    ),
    "access.etag": Wording(409, "ABORTED", "conflict", "There were concurrent policy changes. Please retry."),
    "iam.absent": Wording(
        404, "NOT_FOUND", "notFound", "Unknown service account projects/{project}/serviceAccounts/{email}"
    ),
    "iam.exists": Wording(409, "ALREADY_EXISTS", "", "Service account {name} already exists within project."),
    "iam.argument": Wording(  # the rule is documented, the words are not
        400, "INVALID_ARGUMENT", "", "Invalid service account id; it must match [a-z]([-a-z0-9]*[a-z0-9])."
    ),
    # The cloud's own paths
    "cloud.argument": Wording(400, "INVALID_ARGUMENT", "invalid", "{problem}"),
    # Any service
    "no-method": Wording(404, "NOT_FOUND", "notFound", "Method not found: {verb} {path}"),
    "bad-json": Wording(400, "INVALID_ARGUMENT", "parseError", "Invalid JSON payload received. {problem}"),
    # Identity (OAuth)
    "oauth.grant": Wording(400, "unsupported_grant_type", "", "Invalid grant_type: {grant}"),
    "oauth.signature": Wording(400, "invalid_grant", "", "Invalid JWT Signature."),
    "oauth.scope": Wording(400, "invalid_scope", "", "Bad Request"),  # recorded
    "oauth.target": Wording(  # recorded
        400,
        "invalid_target",
        "",
        'The target service indicated by the "audience" parameters is invalid. This might either be because the pool or'
        " provider is disabled or deleted or because it doesn't exist.",
    ),
    "oauth.stale": Wording(400, "invalid_grant", "", "ID Token is stale to sign-in."),
    "oauth.token": Wording(400, "invalid_token", "", "Invalid Value"),
}


LATE: Mapping[str, tuple[int, str]] = {
    # Failures that arrive in an operation, or in a queued resource, when it ends: google.rpc code and text.
    "tpu.taken": (  # recorded (google-cloud.md 2.2): a spot node that is taken while it is created
        3,
        "Cloud TPU received a bad request. update is not supported while in state PREEMPTED {eid}",
    ),
    # The states are documented, the words are not (google-cloud.md 2.6).
    "tpu.expired": (4, "The queued resource was not provisioned before its valid-until time."),
    "tpu.name-taken": (6, "Resource '{name}' already exists"),
    "tpu.node-going": (10, "The node is being deleted."),
    "tpu.queue-going": (10, "The queued resource is being deleted."),
}
