"""Every recorded refusal means what google-cloud.md (2.4, 3.3, 4.3, 4.5, 5.8) says it means."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuops.cloud.answers import Answer, no_answer, of_compute, of_http, of_operation
from tpuops.cloud.failures import classify
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

METHOD, RESOURCE = "tpu.nodes.create", "projects/p/locations/z/nodes/n"
QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"subject": "project:1"}]}


def info(reason: str, **metadata: str) -> dict:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "metadata": metadata}


def platform(code: int, status: str, message: str, *details: dict) -> Answer:
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return of_http(code, json.dumps({"error": error}).encode())


def legacy(code: int, reason: str, message: str) -> Answer:
    error = {"code": code, "message": message, "errors": [{"reason": reason, "domain": "global", "message": message}]}
    return of_http(code, json.dumps({"error": error}))


QUOTA_TEXT = (
    "Quota limit 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 4 in zone us-east5-a."
)
CAPACITY_TEXT = (
    'There is no more capacity in the zone "us-central1-c"; you can try in another zone where Cloud TPU Nodes are'
    " offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x9f48947a7d57c8d]"
)
RESERVED_TEXT = (
    "Insufficient reserved capacity. Contact customer support to increase your reservation. [EID: 0x7adf6d58c08b0aa4]"
)
RATE_TEXT = (
    "The object b/lease.json exceeded the rate limit for object mutation operations (create, update, and delete)."
    " Please reduce your request rate. See https://cloud.google.com/storage/docs/gcs429."
)
PREEMPTED_TEXT = (
    "Cloud TPU received a bad request. update is not supported while in state PREEMPTED [EID: 0x73013519f5b7feb2]"
)
DISABLED_TEXT = (
    "Cloud TPU API has not been used in project 12 before or it is disabled. Enable it by visiting"
    " https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project=12 then retry."
)
POOL = "ZONE_RESOURCE_POOL_EXHAUSTED"

CASES = {
    "quota at admission": (platform(429, "RESOURCE_EXHAUSTED", QUOTA_TEXT, QUOTA), QuotaExceeded),
    "quota by its text alone": (platform(429, "RESOURCE_EXHAUSTED", QUOTA_TEXT), QuotaExceeded),
    "quota by its detail alone": (platform(429, "RESOURCE_EXHAUSTED", "in other words", QUOTA), QuotaExceeded),
    "quota late": (of_operation(8, QUOTA_TEXT), QuotaExceeded),
    "requests per minute": (
        platform(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'X' and limit 'X requests per minute'"),
        Transient,
    ),
    "rate by its reason, even with a QuotaFailure": (
        platform(429, "RESOURCE_EXHAUSTED", "Quota exceeded", info("RATE_LIMIT_EXCEEDED"), QUOTA),
        Transient,
    ),
    "429 without a word": (platform(429, "RESOURCE_EXHAUSTED", "slow down"), Transient),
    "stockout late": (of_operation(8, CAPACITY_TEXT), NoCapacity),
    "reservation late, code 8": (of_operation(8, RESERVED_TEXT), NoCapacity),
    "reservation late, code 9": (of_operation(9, RESERVED_TEXT), NoCapacity),
    "exhausted late without a word": (of_operation(8, "exhausted"), NoCapacity),
    "spot taken during creation": (of_operation(3, PREEMPTED_TEXT), NoCapacity),
    "busy in a passing state": (of_operation(3, "update is not supported while in state STARTING"), Conflict),
    "type not in zone": (
        platform(
            400, "INVALID_ARGUMENT", 'The requested accelerator configuration for accelerator type, "v6e-1", could'
        ),
        Refused,
    ),
    "zone unknown": (
        platform(400, "INVALID_ARGUMENT", 'The requested zone "asia-northeast1-a" is not supported.'),
        Refused,
    ),
    "location not enabled": (
        platform(
            403,
            "PERMISSION_DENIED",
            "Permission denied on 'locations/us-central2-b' (or it may not exist).",
            info("LOCATION_POLICY_VIOLATED", location="us-central2-b"),
        ),
        AccessError,
    ),
    "location, older text": (
        platform(403, "PERMISSION_DENIED", "Location us-east1-d is not found or access is unauthorized."),
        AccessError,
    ),
    "TPU Node": (platform(400, "FAILED_PRECONDITION", "Your request to provision TPU Node has been denied."), Refused),
    "not found": (platform(404, "NOT_FOUND", f"Resource '{RESOURCE}' was not found"), NotFound),
    "exists": (platform(409, "ALREADY_EXISTS", f"Resource '{RESOURCE}' already exists"), Conflict),
    "another operation": (platform(409, "ABORTED", "Another operation is in progress"), Conflict),
    "compute stockout": (
        of_compute(
            [{"code": POOL, "message": "A e2-standard-2 VM instance is currently unavailable in the z zone."}], 503, "X"
        ),
        NoCapacity,
    ),
    "compute stockout with details": (
        of_compute([{"code": f"{POOL}_WITH_DETAILS", "message": "m"}], 503, "X"),
        NoCapacity,
    ),
    "compute stockout, classic text": (
        of_compute(
            [{"message": "The zone 'projects/P/zones/Z' does not have enough resources available to fulfill"}], 503, ""
        ),
        NoCapacity,
    ),
    "compute quota": (
        of_compute([{"code": "QUOTA_EXCEEDED", "message": "Quota 'CPUS' exceeded."}], 403, "FORBIDDEN"),
        QuotaExceeded,
    ),
    "compute quota at admission": (legacy(403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 8.0"), QuotaExceeded),
    "compute rate": (legacy(403, "rateLimitExceeded", "Rate Limit Exceeded"), Transient),
    "compute still stopping": (of_compute([{"code": "RESOURCE_NOT_READY", "message": "x"}], 400, ""), Transient),
    "compute exists": (legacy(409, "alreadyExists", "The resource 'x' already exists"), Conflict),
    "compute stale": (legacy(412, "conditionNotMet", "Labels fingerprint either invalid"), Conflict),
    "compute required": (legacy(400, "required", "Required field 'x' not specified"), Refused),
    "compute without words": (of_compute([], 0, ""), Transient),
    "storage rate": (legacy(429, "rateLimitExceeded", RATE_TEXT), Transient),
    "storage precondition": (legacy(412, "conditionNotMet", "At least one of the pre-conditions you"), Conflict),
    "storage name taken": (legacy(409, "conflict", "The requested bucket name is not available."), Conflict),
    "scope": (
        platform(
            403,
            "PERMISSION_DENIED",
            "Request had insufficient authentication scopes.",
            info("ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
        ),
        AccessError,
    ),
    "scope, storage": (legacy(403, "forbidden", "Provided scope(s) are not authorized"), AccessError),
    "API off": (
        platform(403, "PERMISSION_DENIED", DISABLED_TEXT, info("SERVICE_DISABLED", service="tpu.googleapis.com")),
        AccessError,
    ),
    "API off, legacy": (legacy(403, "accessNotConfigured", DISABLED_TEXT), AccessError),
    "wrong project": (
        platform(403, "PERMISSION_DENIED", "Permission denied on resource project X.", info("CONSUMER_INVALID")),
        AccessError,
    ),
    "no permission": (
        platform(403, "PERMISSION_DENIED", f"Permission 'tpu.nodes.create' denied on '{RESOURCE}'"),
        AccessError,
    ),
    "no quota project": (
        platform(403, "PERMISSION_DENIED", "The X API requires a quota project, which is not set"),
        AccessError,
    ),
    "token expired": (platform(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), AccessError),
    "forbidden otherwise": (legacy(403, "forbidden", "The organization says no"), Refused),
    "server error": (of_http(500, b"<html>oops</html>"), Transient),
    "unavailable late": (of_operation(14, "The service is currently unavailable."), Transient),
    "no method": (of_http(501, b"{}"), Refused),
    "no answer": (no_answer("no answer: reset"), Transient),
}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_refusal_means(name):
    answer, meaning = CASES[name]
    error = classify(METHOD, RESOURCE, answer)
    assert type(error) is meaning
    assert "EID" not in error.message
    if isinstance(error, CloudError):
        assert (error.method, error.resource, error.status) == (METHOD, RESOURCE, answer.status)


def test_access_errors_carry_the_command_that_mends_them():
    hint = {name: classify(METHOD, RESOURCE, CASES[name][0]).hint for name in CASES}
    assert "gcloud services enable tpu.googleapis.com" in hint["API off"]
    assert "gcloud services enable tpu.googleapis.com" in hint["API off, legacy"]
    assert "run `gcloud auth application-default login`" in hint["scope"]
    assert "tpu.nodes.create" in hint["no permission"]
    assert "set-quota-project" in hint["no quota project"]
    assert "gcloud auth application-default login" in hint["token expired"]


CONSTRAINT = "Constraint constraints/compute.vmExternalIpAccess violated for project 12."
KINDS = {
    "api-disabled": CASES["API off"][0],
    "project-wrong": CASES["wrong project"][0],
    "permission-denied": CASES["no permission"][0],
    "quota-project-missing": platform(
        403,
        "PERMISSION_DENIED",
        "The tpu.googleapis.com API requires a quota project, which is not set by default.",
        info("SERVICE_DISABLED", consumer="projects/764086051850"),
    ),
    "quota-project-denied": platform(403, "PERMISSION_DENIED", "Caller does not have", info("USER_PROJECT_DENIED")),
    "billing-disabled": legacy(403, "forbidden", "This API method requires billing to be enabled. Please enable"),
    "location-closed": platform(403, "PERMISSION_DENIED", "Permission denied", info("LOCATION_POLICY_VIOLATED")),
    "org-policy": legacy(412, "conditionNotMet", CONSTRAINT),
    "credentials-account": platform(401, "UNAUTHENTICATED", "Account disabled", info("ACCOUNT_STATE_INVALID")),
    "scopes-insufficient": platform(403, "PERMISSION_DENIED", "x", info("ACCESS_TOKEN_SCOPE_INSUFFICIENT")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_refusal_that_a_person_mends_has_a_class_and_a_way_out(kind):
    error = classify(METHOD, RESOURCE, KINDS[kind])
    assert isinstance(error, AccessError)
    assert error.kind == kind
    assert error.hint
    assert "{" not in error.message + error.hint


def test_a_constraint_is_no_lost_race_late_either():
    late = of_compute([{"code": "CONDITION_NOT_MET", "message": CONSTRAINT}], 412, "Precondition Failed")
    error = classify("compute.instances.insert", RESOURCE, late)
    assert isinstance(error, AccessError)
    assert error.kind == "org-policy"


def test_a_permission_is_named_with_what_it_is_about_and_a_role_that_holds_it():
    metadata = {"permission": "iam.serviceAccounts.actAs", "resource": "projects/p"}
    error = classify(
        METHOD, RESOURCE, platform(403, "PERMISSION_DENIED", "no", info("IAM_PERMISSION_DENIED", **metadata))
    )
    assert error.message == "this login lacks iam.serviceAccounts.actAs on projects/p"
    assert "roles/iam.serviceAccountUser" in error.hint


def test_the_incident_id_stays_in_the_text_for_support():
    answer = of_operation(8, CAPACITY_TEXT)
    assert "EID: 0x9f48947a7d57c8d" in answer.text
    assert "EID" not in answer.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "errors", "details", "code", "reason"]), inner)
    ),
    max_leaves=8,
)


@given(st.integers(300, 599), json_values | st.text())
def test_no_body_at_all_breaks_the_verdict(status, body):
    text = body if isinstance(body, str) else json.dumps(body)
    assert isinstance(classify(METHOD, RESOURCE, of_http(status, text)), TpuopsError)
