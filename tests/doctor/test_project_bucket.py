"""Buckets and accounts that keep machines from their results; where a program may mend, `up` works after it."""

from __future__ import annotations

import json
import time
from typing import Any

from tpuops.doctor import bucket
from tpuops.doctor.finding import State
from tpuops.stages.record import RunRecord

from .conftest import FILE, MACHINES, Clinic
from .looking import look
from .test_project_network import mended

COMPUTE = "/compute/v1/projects/local-tests/zones/us-central1-a/instances"
NODES = "/v2/projects/local-tests/locations/us-central1-a/nodes"
TRAINER = "trainer@local-tests.iam.gserviceaccount.com"
BUCKET = "local-tests-theirs"
LABELS = {"tpuops": "v1", "tpuops-env": "tiny", "tpuops-owner": "ada"}
READ = "https://www.googleapis.com/auth/devstorage.read_only"
EVERY = "https://www.googleapis.com/auth/cloud-platform"


def a_bucket(clinic: Clinic, location: str, project: str = "local-tests") -> None:
    clinic.cloud.ask("POST", f"/storage/v1/b?project={project}", {"name": BUCKET, "location": location})
    clinic.write(FILE + f"bucket: {{name: {BUCKET}}}\n")


def members(clinic: Clinic, bucket: str) -> dict[str, list[str]]:
    policy = clinic.cloud.ask("GET", f"/storage/v1/b/{bucket}/iam")
    return {binding["role"]: binding["members"] for binding in policy["bindings"]}


def the_bucket(clinic: Clinic) -> str:
    (name,) = clinic.cloud.status()["buckets"]
    return str(name)


def test_a_bucket_of_another_project(clinic: Clinic) -> None:
    a_bucket(clinic, "US-CENTRAL1", "local-others")
    seen = clinic.doctor(code=2)
    seen.is_broken("bucket", "bucket-not-ours", "set `bucket.name` to a bucket of this project")
    assert seen["bucket"]["evidence"] == ["tiny.yaml:12: bucket.name"]


def test_a_bucket_far_from_the_zone(clinic: Clinic) -> None:
    a_bucket(clinic, "EUROPE-WEST4")
    found = look(clinic, bucket.bucket)
    assert (found.kind, found.exit_code) == ("bucket-far", 2)
    assert "a bucket cannot move" in found.hint


def test_a_bucket_that_we_may_see_and_not_write(clinic: Clinic) -> None:
    a_bucket(clinic, "US-CENTRAL1")
    may = ["roles/viewer", "roles/tpu.admin", "roles/compute.instanceAdmin.v1", "roles/iam.serviceAccountUser"]
    clinic.access(enforce=True, anonymous={"email": "eve@example.com"}, bindings={"eve@example.com": may})
    found = clinic.doctor(code=3)["bucket-access"]
    assert (found["state"], found["class"]) == ("broken", "bucket-forbidden")
    assert "lacks storage.objects.create" in found["evidence"]
    assert "roles/storage.objectAdmin" in found["hint"]


def test_machines_whose_account_has_no_role_get_the_bucket_and_nothing_else(clinic: Clinic) -> None:
    clinic.cloud.ask("POST", "/resourcemanager/v1/projects/local-tests:setIamPolicy", {"policy": {"bindings": []}})
    seen = clinic.doctor(code=3)
    seen.is_broken("machines-bucket", "account-without-bucket", f"--member=serviceAccount:{MACHINES}")
    mended(clinic, "machines-bucket")
    own = [f"serviceAccount:{MACHINES}"]
    assert members(clinic, the_bucket(clinic)) == {
        "roles/storage.objectAdmin": own,
        "roles/storage.legacyBucketReader": own,
    }
    policy = clinic.cloud.ask("POST", "/resourcemanager/v1/projects/local-tests:getIamPolicy", {})
    assert not policy.get("bindings")


def test_an_account_that_is_not_there_is_made_for_the_bucket_alone(clinic: Clinic) -> None:
    clinic.cloud.ask("POST", "/_cloud/project", {"accounts": []})
    clinic.write(FILE.replace("tpu: {", f"tpu: {{service_account: {TRAINER}, "))
    seen = clinic.doctor(code=3)
    seen.is_broken("accounts", "account-missing", "gcloud iam service-accounts create trainer")
    assert "and nothing else" in seen["accounts"]["fix"]["what"]
    mended(clinic, "accounts")
    assert set(members(clinic, the_bucket(clinic))["roles/storage.objectAdmin"]) == {f"serviceAccount:{TRAINER}"}
    node = clinic.cloud.ask("GET", f"{NODES}/tpuops-tiny-ada")
    assert node["serviceAccount"]["email"] == TRAINER


def test_an_account_of_another_project_is_not_ours_to_make(clinic: Clinic) -> None:
    clinic.cloud.ask("POST", "/_cloud/project", {"accounts": []})
    foreign = "trainer@somewhere-else.iam.gserviceaccount.com"
    clinic.write(FILE.replace("tpu: {", f"tpu: {{service_account: {foreign}, "))
    found = look(clinic, bucket.accounts)
    assert (found.state, found.kind, found.fix) == (State.BROKEN, "account-missing", None)
    assert "it lies in another project" in found.hint


def made_by_hand(scopes: list[str]) -> dict[str, Any]:
    return {
        "name": "tpuops-tiny-ada-vm",
        "machineType": "zones/us-central1-a/machineTypes/e2-small",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "10"}}],
        "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": [{"name": "external-nat"}]}],
        "serviceAccounts": [{"email": "default", "scopes": scopes}],
        "labels": LABELS,
    }


def until(clinic: Clinic, path: str, field: str, state: str) -> dict[str, Any]:
    for _ in range(200):
        found = dict(clinic.cloud.ask("GET", path))
        if found[field] == state:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_a_machine_without_the_scope_is_stopped_given_it_and_started(clinic: Clinic) -> None:
    clinic.cloud.ask("POST", COMPUTE, made_by_hand([READ]))
    before = until(clinic, f"{COMPUTE}/tpuops-tiny-ada-vm", "status", "RUNNING")
    seen = clinic.doctor(code=3)
    seen.is_broken("machines-scopes", "vm-scopes", "stops it, sets them and starts it")
    assert "set-service-account tpuops-tiny-ada-vm" in seen["machines-scopes"]["fix"]["command"]
    mark = max(entry["n"] for entry in clinic.cloud.requests())
    mended(clinic, "machines-scopes")
    after = until(clinic, f"{COMPUTE}/tpuops-tiny-ada-vm", "status", "RUNNING")
    assert after["serviceAccounts"][0]["scopes"] == [EVERY]
    assert after["id"] == before["id"]  # the same machine, which `up` then keeps
    changes = [entry["method"] for entry in clinic.cloud.requests(mark, mutating=True, service="compute")]
    assert changes == [f"compute.instances.{verb}" for verb in ("stop", "setServiceAccount", "start")]


def a_node(clinic: Clinic) -> dict[str, Any]:
    """A TPU under the environment's name, made by hand without the scope to write."""
    body = {
        "acceleratorType": "v3-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": LABELS,
        "networkConfig": {"enableExternalIps": True},
        "serviceAccount": {"scope": [READ]},
    }
    clinic.cloud.ask("POST", f"{NODES}?nodeId=tpuops-tiny-ada", body)
    return until(clinic, f"{NODES}/tpuops-tiny-ada", "state", "READY")


def test_a_tpu_on_which_a_run_is_open_is_left_alone(clinic: Clinic) -> None:
    a_bucket(clinic, "US-CENTRAL1")
    a_node(clinic)
    record = json.loads(RunRecord("r1", "running", "d", "2026-01-01T00:00:00+00:00").data())
    name = "tpuops%2Ftiny%2Frun.json"
    clinic.cloud.ask("POST", f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}", record)
    found = look(clinic, bucket.machines_scopes)
    assert (found.kind, found.fix) == ("tpu-scopes", None)
    assert "`tpuops stop --env tiny` run r1 first" in found.hint


def test_a_tpu_without_the_scope_is_deleted_and_made_anew(clinic: Clinic) -> None:
    before = a_node(clinic)
    seen = clinic.doctor(code=3)
    seen.is_broken("machines-scopes", "tpu-scopes", "make it anew")
    mended(clinic, "machines-scopes")
    after = until(clinic, f"{NODES}/tpuops-tiny-ada", "state", "READY")
    assert EVERY in after["serviceAccount"]["scope"]
    assert after["id"] != before["id"]
