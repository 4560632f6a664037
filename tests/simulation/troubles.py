"""The words of trouble: exit codes, messages and refusals in the services' own terms, for fault scripts."""

from __future__ import annotations

from typing import Any

DONE, PERSON, CAPACITY, GAVE_UP, BILLING, LIMIT, TRAINING = 0, 3, 4, 5, 6, 8, 10
INFEED = """Traceback (most recent call last):
FailedPreconditionError: Unable to enqueue when not opened, queue: [0000:00:04.0 PE0 C0 MC-1 TN0 Queue \
TENSOR_CORE_INFEED]. State is: FAILED
An error was raised. This may be due to a preemption in a connected worker or parameter server. Error: Socket closed
"""
STOCKOUT = 'There is no more capacity in the zone "us-central1-a"; you can try in another zone where Cloud TPU Nodes'
QUOTA = "Quota limit 'TPUV3sPodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 8 in zone us-central1-a."
NODE, VM = "tpuops-sim-ada", "tpuops-sim-ada-vm"

TRANSIENT: tuple[dict[str, Any], ...] = (
    {"error": {"http": 503, "status": "UNAVAILABLE", "message": "The service is currently unavailable."}},
    {"error": {"http": 500, "status": "INTERNAL", "message": "Internal error encountered."}},
    {
        "error": {
            "http": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": "Quota exceeded for quota metric 'Write requests' and limit 'Write requests per minute'",
            "reason": "RATE_LIMIT_EXCEEDED",
        }
    },
    {"lose_reply": True},
    {"drop_request": True},
    {"delay_s": 3.0},
)
READS = (
    "tpu.nodes.get",
    "tpu.operations.get",
    "tpu.nodes.getGuestAttributes",
    "compute.instances.get",
    "compute.projects.get",
    "storage.buckets.get",
    "storage.objects.list",
)
CHANGES = (
    "tpu.nodes.create",
    "tpu.nodes.delete",
    "compute.instances.insert",
    "compute.instances.delete",
    "storage.buckets.insert",
)
FORBIDDEN: tuple[dict[str, Any], ...] = (
    {
        "http": 403,
        "status": "PERMISSION_DENIED",
        "message": "Permission 'tpu.nodes.create' denied on 'projects/local-sim/locations/us-central1-a'",
        "reason": "IAM_PERMISSION_DENIED",
    },
    {"http": 400, "status": "INVALID_ARGUMENT", "message": "Cloud TPU received a bad request."},
)
