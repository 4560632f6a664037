"""What Google's services answer, as far as the tests of the clients need it."""

from __future__ import annotations

from datetime import UTC, datetime

from tpuops.resources import NodeSpec, Owned, Place, VmSpec

PLACE = Place("my-project", "us-central1-a")
LABELS = Owned("v3-8", "ann").labels
NODE_PATH = "projects/my-project/locations/us-central1-a/nodes/n"
NODE = {
    "name": NODE_PATH,
    "id": "7420000000000000001",
    "state": "READY",
    "health": "HEALTHY",
    "acceleratorType": "v3-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "labels": LABELS,
    "networkEndpoints": [{"ipAddress": "10.0.0.2", "port": 8470, "accessConfig": {"externalIp": "34.1.2.3"}}],
    "createTime": "2026-11-20T12:00:00.123456789Z",
    "schedulingConfig": {"spot": True},
}
INSTANCE = {
    "name": "n-vm",
    "id": "99",
    "status": "RUNNING",
    "machineType": "https://compute.googleapis.com/compute/v1/projects/p/zones/z/machineTypes/e2-small",
    "labels": LABELS,
    "networkInterfaces": [{"networkIP": "10.0.0.3", "accessConfigs": [{"natIP": "34.1.2.4"}]}],
    "creationTimestamp": "2026-11-20T04:00:00.000-08:00",
}
OPERATION = {"name": "projects/my-project/locations/us-central1-a/operations/operation-1"}
TAKEN = {"error": {"code": 409, "message": f"Resource '{NODE_PATH}' already exists", "status": "ALREADY_EXISTS"}}
BUCKET = {
    "kind": "storage#bucket",
    "name": "b",
    "location": "US-CENTRAL1",
    "projectNumber": "1234",
    "labels": LABELS,
    "timeCreated": "2026-11-20T12:00:00.000Z",
}
OBJECT = {
    "name": "lease.json",
    "bucket": "b",
    "generation": "7",
    "size": "2",
    "md5Hash": "mZFLkyvTelC5g8XnyQrpOw==",
    "updated": "2026-11-20T12:00:00.000Z",
}
PRECONDITION = {
    "error": {
        "code": 412,
        "message": "At least one of the pre-conditions you specified did not hold.",
        "errors": [{"reason": "conditionNotMet", "domain": "global"}],
    }
}


def spec(**changes) -> NodeSpec:
    return NodeSpec("n", PLACE, "v3-8", "tpu-ubuntu2204-base", False, LABELS, {"ssh-keys": "ann:x y"}, **changes)


def vm_spec() -> VmSpec:
    end = datetime(2026, 12, 1, tzinfo=UTC)
    return VmSpec(
        "n-vm", PLACE, "e2-small", "projects/d/global/images/family/f", 10, LABELS, {"k": "v"}, terminate_at=end
    )
