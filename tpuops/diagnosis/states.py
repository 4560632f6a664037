"""What the API's own words about a machine mean: node state and health, queued resource, VM events, refused calls.

States outrank log text, since a log cannot know that its machine was taken (google-cloud.md 2.2, 2.6; taxonomy,
precedence 3). Reasons of ErrorInfo outrank messages (5.7, 5.8). Unknown values are tolerated and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tpuops.diagnosis.classes import CLASSES
from tpuops.diagnosis.verdict import Action, ApiError, Basis, Evidence, Verdict

_LOST = {
    "PREEMPTED": "the node is PREEMPTED and cannot be started again",
    "TERMINATED": "the node is TERMINATED; only deletion is left",
    "DELETING": "the node is being deleted",
    "HIDDEN": "the node is hidden; only deletion is left",
}
_COMING = frozenset({"CREATING", "STARTING", "RESTARTING", "REIMAGING", "HIDING", "UNHIDING"})
_STOPPED = frozenset({"STOPPED", "STOPPING"})
_QUEUE_LOST = frozenset({"SUSPENDING", "SUSPENDED", "DELETING"})
_QUEUE_WAITING = frozenset({"CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING"})
_MAINTENANCE_EVENTS = ("hosterror", "terminateonhostmaintenance", "upcomingmaintenance", "automaticrestart")
_SICK_HEALTH = frozenset({"TIMEOUT", "UNHEALTHY_TENSORFLOW", "UNHEALTHY"})

_SYMPTOMS = {
    "HBM_OUT_OF_MEMORY": "hbm_oom",
    "OUT_OF_MEMORY": "host_oom",
    "LOW_MEMORY": "host_oom",
    "MESH_BUILD_FAIL": "tpu_init_failed",
    "EXECUTE_TIMED_OUT": "hang",
}
_REASONS = {
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT": "insufficient_scopes",
    "insufficientPermissions": "insufficient_scopes",
    "SERVICE_DISABLED": "api_disabled",
    "accessNotConfigured": "api_disabled",
    "IAM_PERMISSION_DENIED": "permission_denied",
    "BILLING_DISABLED": "permission_denied",
    "CONSUMER_INVALID": "permission_denied",
    "USER_PROJECT_DENIED": "permission_denied",
    "LOCATION_POLICY_VIOLATED": "permission_denied",
    "LOCATION_ORG_POLICY_VIOLATED": "permission_denied",
    "SECURITY_POLICY_VIOLATED": "permission_denied",
    "forbidden": "permission_denied",
    "CREDENTIALS_MISSING": "adc_missing",
    "ACCESS_TOKEN_EXPIRED": "adc_missing",
    "ACCOUNT_STATE_INVALID": "adc_missing",
    "RESOURCE_QUOTA_EXCEEDED": "quota_exceeded",
    "QUOTA_EXCEEDED": "quota_exceeded",
    "quotaExceeded": "quota_exceeded",
    "ZONE_RESOURCE_POOL_EXHAUSTED": "stockout",
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": "stockout",
    "insufficientCapacity": "stockout",
    "resource_availability": "stockout",
    "RATE_LIMIT_EXCEEDED": "api_transient",
    "rateLimitExceeded": "api_transient",
    "RESOURCE_OPERATION_RATE_EXCEEDED": "api_transient",
    "backendError": "api_transient",
    "alreadyExists": "resource_conflict",
    "RESOURCE_NOT_READY": "resource_conflict",
    "resourceNotReady": "resource_conflict",
    "SUBNET_NOT_FOUND": "network_config",
    "VPC_NOT_FOUND": "network_config",
    "IP_SPACE_EXHAUSTED": "network_config",
}
_STATUSES = {401: "adc_missing", 403: "permission_denied", 409: "resource_conflict", 429: "api_transient"}


def state_verdict(evidence: Evidence) -> Verdict | None:
    """What the machine's state alone says, or None where it is no explanation."""
    if evidence.node_missing:
        return _stated("preempted", Action.RECREATE, "the API no longer knows the node")
    if evidence.node_state in _LOST:
        return _stated("preempted", Action.RECREATE, _LOST[evidence.node_state])
    if evidence.queued_state in _QUEUE_LOST:
        return _stated("preempted", Action.RECREATE, f"the queued resource is {evidence.queued_state}")
    return _by_events(evidence.vm_events) or _by_node(evidence) or _by_queue(evidence.queued_state)


def _by_events(events: Iterable[str]) -> Verdict | None:
    lowered = [event.lower() for event in events]
    if any("preempted" in event for event in lowered):
        return _stated("preempted", Action.RECREATE, "Compute Engine reported the preemption")
    for event in lowered:
        if any(word in event for word in _MAINTENANCE_EVENTS):
            return _stated("maintenance_event", Action.WAIT_AND_RETRY, f"Compute Engine reported {event}")
    return None


def _by_node(evidence: Evidence) -> Verdict | None:
    state, health = evidence.node_state, evidence.node_health
    if state in _STOPPED:
        return _stated("tpu_unreachable", Action.STOP_START, f"the node is {state}: start it again")
    if state == "REPAIRING":
        return _stated("maintenance_event", Action.WAIT_AND_RETRY, "the node is REPAIRING")
    if state in _COMING:
        return _stated("tpu_unreachable", Action.WAIT_AND_RETRY, f"the node is {state}")
    if state == "UNKNOWN":
        return _stated("tpu_hardware_fault", Action.RECREATE, "the node's repair failed")
    if health == "UNHEALTHY_MAINTENANCE":
        return _maintenance(evidence)
    return None


def _maintenance(evidence: Evidence) -> Verdict:
    """Maintenance of a READY node: left alone while its processes live, restarted where they ended."""
    if not all(each.reachable for each in evidence.workers):
        return _stated("maintenance_event", Action.WAIT_AND_RETRY, "under maintenance and not reachable yet")
    ended = any(each.exit_code is not None or each.rebooted for each in evidence.workers)
    action = Action.RETRY_IN_PLACE if ended else Action.NONE
    return _stated("maintenance_event", action, "the node is under maintenance; save checkpoints sooner")


def _by_queue(state: str) -> Verdict | None:
    if state == "FAILED":
        return _stated("stockout", Action.WAIT_AND_RETRY, "the queued resource FAILED: delete it, then ask again")
    if state in _QUEUE_WAITING:
        return _stated("stockout", Action.NONE, f"the queued resource is {state}: nothing to do but wait")
    return None


def device_verdict(evidence: Evidence) -> Verdict | None:
    """What health, symptoms and the workers' devices say; weaker than a log that names a cause."""
    absent = next((each for each in evidence.workers if each.devices == 0), None)
    if absent is not None:
        advice = f"worker {absent.worker} shows no TPU device: delete and create the node"
        return Verdict(
            "tpu_not_found", Action.RECREATE, worker=absent.worker, advice=advice, basis=Basis.DEVICE, confidence="high"
        )
    for symptom in evidence.symptoms:
        if symptom in _SYMPTOMS:
            name = _SYMPTOMS[symptom]
            return _stated(name, CLASSES[name].action, f"the API reports the symptom {symptom}", "medium", Basis.EXIT)
    if evidence.node_health in _SICK_HEALTH:
        advice = f"the node's health is {evidence.node_health}"
        return _stated("tpu_hardware_fault", Action.STOP_START, advice, "medium", Basis.DEVICE)
    return None


def api_verdict(errors: Iterable[ApiError], said: Callable[[str], str]) -> Verdict | None:
    """The class of the first refused call: that which its reason names, else its text, else its status.

    `said` tells the class that a text names. Text beats status: a 403 or a 429 may be quota, and a 429 a stockout.
    """
    listed = list(errors)
    for error in listed:
        if error.reason in _REASONS:
            return _refused(_REASONS[error.reason], f"{error.reason}: {error.message}", "high")
    for error in listed:
        if name := said(error.message):
            return _refused(name, error.message, "high")
    for error in listed:
        if name := _STATUSES.get(error.status, "api_transient" if error.status >= 500 else ""):
            return _refused(name, f"HTTP {error.status}: {error.message}", "medium")
    return None


def _refused(name: str, told: str, confidence: str) -> Verdict:
    return _stated(name, CLASSES[name].action, told.rstrip(": "), confidence, Basis.EXIT)


def _stated(name: str, action: Action, advice: str, confidence: str = "high", basis: Basis = Basis.STATE) -> Verdict:
    return Verdict(name, action, advice=advice, confidence=confidence, basis=basis)
