"""A long script of unmodified gcloud commands: each change is followed by a look at it, each refusal told by its text.

Independent parts run side by side, since most of a gcloud call is its own start. A missing gcloud fails the tests.
"""

import json
import os
import shutil
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

pytestmark = [pytest.mark.wire, pytest.mark.gcloud, pytest.mark.timeout(600)]

TPU = ("compute", "tpus", "tpu-vm")
QUEUED = ("compute", "tpus", "queued-resources")
VM = ("compute", "instances")
BUCKETS = ("storage", "buckets")
OBJECTS = ("storage", "objects")
V3 = ("--accelerator-type=v3-8", "--version=tpu-ubuntu2204-base")
QUEUED_V3 = ("--accelerator-type=v3-8", "--runtime-version=tpu-ubuntu2204-base")
SMALL = ("--machine-type=e2-small", "--image-family=debian-12", "--image-project=debian-cloud")
SERVED = {"TPU": "", "COMPUTE": "compute/v1/", "STORAGE": "storage/v1/"}
STOCKOUT = {"code": 8, "message": "There is no more capacity in the zone"}
QUOTA = {"http": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota limit 'X' has been exceeded."}
FORBIDDEN = {"http": 403, "status": "PERMISSION_DENIED", "message": "Permission 'tpu.nodes.create' denied"}
FAULTS = [
    {"on": {"method": "tpu.nodes.create", "resource": "*/stockout"}, "do": {"fail_operation": STOCKOUT}},
    {"on": {"method": "tpu.nodes.create", "resource": "*/forbidden"}, "do": {"error": FORBIDDEN}},
    {"on": {"method": "compute.instances.insert"}, "do": {"fail_operation": STOCKOUT}},
]


RULES = {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefix": ["old/"]}}]}
LOOKS = {
    "service-identity",
    "describe",
    "list",
    "ls",
    "cat",
    "du",
    "get-iam-policy",
    "get-serial-port-output",
    "get-value",
}


class Gcloud:
    """gcloud with a home of its own. Counts what it was asked, and lets no change go unlooked at."""

    counts: ClassVar[Counter] = Counter()
    lock = threading.Lock()

    def __init__(self, cloud, home):
        home.mkdir()
        (home / "token").write_text(urlsplit(cloud.url).path.strip("/"))
        self.home = home
        self.changed = ()
        self.program = shutil.which("gcloud")
        assert self.program, "gcloud is missing"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TPUOPS_TESTS": os.environ.get("TPUOPS_TESTS", ""),
            "CLOUDSDK_CONFIG": str(home / "gcloud"),
            "CLOUDSDK_CORE_PROJECT": cloud.project,
            "CLOUDSDK_COMPUTE_ZONE": cloud.zone,
            "CLOUDSDK_COMPUTE_REGION": "us-central1",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(home / "token"),
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}": f"{cloud.url}/{path}" for api, path in SERVED.items()},
        }

    def run(self, words, *options):
        service = "storage" if words[0] == "storage" else "tpu" if "tpus" in words else "compute"
        done = subprocess.run(
            [self.program, *map(str, words), *options],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        with self.lock:
            self.counts[service] += 1
        return done

    @staticmethod
    def looks(words):
        home = "cp" in words and not str(words[-1]).startswith("gs://")
        return home or not LOOKS.isdisjoint(map(str, words))

    def __call__(self, *words, plain=False):
        looks = self.looks(words)
        assert looks or not self.changed, f"nobody looked at what this did: {self.changed}"
        self.changed = () if looks else words
        done = self.run(words, *(() if plain else ("--format=json",)))
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout if plain else json.loads(done.stdout or "null")

    def refused(self, text, *words):
        done = self.run(words)
        self.changed = () if self.looks(words) else self.changed
        assert done.returncode != 0, words
        assert text in done.stderr, (words, done.stderr)
        with self.lock:
            self.counts["refusals"] += 1


def node_life(gcloud):
    gcloud(*TPU, "create", "n1", *V3, "--labels=a=b", "--metadata=k=v")
    node = gcloud(*TPU, "describe", "n1")
    assert (node["state"], node["labels"], node["metadata"]) == ("READY", {"a": "b"}, {"k": "v"})
    gcloud.refused("ALREADY_EXISTS", *TPU, "create", "n1", *V3)
    gcloud(*TPU, "update", "n1", "--add-tags=t")
    assert gcloud(*TPU, "describe", "n1")["tags"] == ["t"]
    gcloud(*TPU, "stop", "n1")
    assert gcloud(*TPU, "describe", "n1")["state"] == "STOPPED"
    gcloud.refused("stop is not supported while in state STOPPED", *TPU, "stop", "n1")
    gcloud(*TPU, "start", "n1")
    assert gcloud(*TPU, "describe", "n1")["health"] == "HEALTHY"
    gcloud.refused("start is not supported while in state READY", *TPU, "start", "n1")
    gcloud(*TPU, "delete", "n1")
    gcloud.refused("NOT_FOUND", *TPU, "describe", "n1")
    gcloud.refused("NOT_FOUND", *TPU, "delete", "n1")


def queued_life(gcloud):
    gcloud(*QUEUED, "create", "q1", "--node-id=n2", *QUEUED_V3, "--spot", "--valid-until-duration=6h")
    gcloud.refused("ALREADY_EXISTS", *QUEUED, "create", "q1", "--node-id=n2", *QUEUED_V3)
    queued = gcloud(*QUEUED, "describe", "q1")
    assert (queued["state"]["state"], queued["queueingPolicy"]["validUntilDuration"]) == ("ACTIVE", "21600s")
    assert gcloud(*TPU, "describe", "n2")["schedulingConfig"] == {"spot": True}
    gcloud.refused("is in state ACTIVE", *QUEUED, "delete", "q1")
    gcloud.refused("FAILED_PRECONDITION", *TPU, "stop", "n2")
    gcloud(*TPU, "delete", "n2")
    assert gcloud(*QUEUED, "describe", "q1")["state"]["state"] == "SUSPENDED"
    gcloud(*QUEUED, "reset", "q1")
    assert gcloud(*QUEUED, "describe", "q1")["state"]["state"] == "ACTIVE"
    assert [found["name"].rsplit("/", 1)[1] for found in gcloud(*QUEUED, "list")] == ["q1"]
    gcloud(*QUEUED, "delete", "q1", "--force")
    gcloud.refused("NOT_FOUND", *QUEUED, "describe", "q1")


def what_zones_offer(gcloud):
    assert "v3-8" in [found["type"] for found in gcloud(*TPU, "accelerator-types", "list")]
    assert gcloud(*TPU, "accelerator-types", "describe", "v3-8")["acceleratorConfigs"][0]["topology"] == "2x2"
    gcloud.refused("NOT_FOUND", *TPU, "accelerator-types", "describe", "v4-8")
    assert "tpu-ubuntu2204-base" in [found["version"] for found in gcloud(*TPU, "versions", "list")]
    assert gcloud(*TPU, "versions", "describe", "tpu-ubuntu2204-base")["version"] == "tpu-ubuntu2204-base"
    gcloud.refused("NOT_FOUND", *TPU, "versions", "describe", "nothing")
    gcloud.refused("could not be found in the zonal", *TPU, "create", "x", "--accelerator-type=v4-8", "--version=r")
    gcloud.refused("Permission denied on 'locations/mars-a'", *TPU, "list", "--zone=mars-a")
    gcloud.refused("no more capacity", *TPU, "create", "stockout", *V3)
    gcloud.refused("NOT_FOUND", *TPU, "describe", "stockout")
    gcloud.refused("PERMISSION_DENIED", *TPU, "create", "forbidden", *V3)
    assert "cloud-tpu" in gcloud(*TPU, "service-identity", "create", plain=True)
    gcloud("alpha", *QUEUED, "create", "q2", "--node-count=2", "--node-prefix=s", *QUEUED_V3)
    assert gcloud("alpha", *QUEUED, "describe", "q2")["tpu"]["nodeSpec"][0]["multiNodeParams"]["nodeCount"] == 2
    names = [found["name"].rsplit("/", 1)[1] for found in gcloud(*TPU, "list", "--zone=-")]
    assert {"s-0", "s-1"} <= set(names)
    gcloud("alpha", *TPU, "simulate-maintenance-event", "s-0")
    assert gcloud("alpha", *TPU, "describe", "s-0")["health"] == "HEALTHY"
    gcloud("alpha", *QUEUED, "delete", "q2", "--force")
    gcloud.refused("NOT_FOUND", *TPU, "describe", "s-0")


def instance_life(gcloud):
    gcloud.refused("no more capacity", *VM, "create", "vm1", *SMALL)
    limit = ("--max-run-duration=1h", "--instance-termination-action=DELETE")
    gcloud(*VM, "create", "vm1", *SMALL, *limit, "--labels=a=b")
    vm = gcloud(*VM, "describe", "vm1")
    assert (vm["status"], vm["scheduling"]["maxRunDuration"]["seconds"]) == ("RUNNING", "3600")
    gcloud.refused("already exists", *VM, "create", "vm1", *SMALL)
    gcloud.refused("must be stopped", *VM, "set-scheduling", "vm1", "--no-restart-on-failure")
    gcloud.refused("must be stopped", *VM, "set-machine-type", "vm1", "--machine-type=e2-medium")
    gcloud(*VM, "add-labels", "vm1", "--labels=c=d")
    assert [found["labels"] for found in gcloud(*VM, "list", "--filter=labels.a=b")] == [{"a": "b", "c": "d"}]
    gcloud(*VM, "add-metadata", "vm1", "--metadata=k=v")
    assert gcloud(*VM, "describe", "vm1")["metadata"]["items"] == [{"key": "k", "value": "v"}]
    gcloud(*VM, "stop", "vm1")
    assert gcloud(*VM, "describe", "vm1")["status"] == "TERMINATED"
    gcloud(*VM, "set-service-account", "vm1", "--scopes=cloud-platform")
    account = gcloud(*VM, "describe", "vm1")["serviceAccounts"][0]
    assert account["scopes"] == ["https://www.googleapis.com/auth/cloud-platform"]
    gcloud(*VM, "start", "vm1")
    assert "boot 2" in gcloud(*VM, "get-serial-port-output", "vm1", plain=True)
    gcloud(*VM, "update", "vm1", "--deletion-protection")
    assert gcloud(*VM, "describe", "vm1")["deletionProtection"]
    gcloud.refused("protected against deletion", *VM, "delete", "vm1")
    gcloud(*VM, "update", "vm1", "--no-deletion-protection")
    assert not gcloud(*VM, "describe", "vm1")["deletionProtection"]
    gcloud(*VM, "delete", "vm1")
    gcloud.refused("was not found", *VM, "describe", "vm1")


def surroundings(gcloud):
    gcloud("compute", "disks", "create", "d1", "--size=10GB")
    assert gcloud("compute", "disks", "describe", "d1")["status"] == "READY"
    gcloud("compute", "disks", "resize", "d1", "--size=20GB")
    assert gcloud("compute", "disks", "describe", "d1")["sizeGb"] == "20"
    gcloud.refused("already exists", "compute", "disks", "create", "d1", "--size=10GB")
    gcloud("compute", "disks", "delete", "d1")
    gcloud.refused("was not found", "compute", "disks", "describe", "d1")
    gcloud("compute", "firewall-rules", "create", "f1", "--allow=tcp:8476", "--source-ranges=10.0.0.0/8")
    assert gcloud("compute", "firewall-rules", "describe", "f1")["sourceRanges"] == ["10.0.0.0/8"]
    gcloud.refused("already exists", "compute", "firewall-rules", "create", "f1", "--allow=tcp:22")
    gcloud("compute", "firewall-rules", "delete", "f1")
    gcloud.refused("was not found", "compute", "firewall-rules", "describe", "f1")
    gcloud("compute", "project-info", "add-metadata", "--metadata=k=v")
    shared = gcloud("compute", "project-info", "describe")["commonInstanceMetadata"]
    assert shared["items"] == [{"key": "k", "value": "v"}]
    gcloud.refused("was not found", "compute", "zones", "describe", "mars-a")
    gcloud.refused("was not found", "compute", "machine-types", "describe", "z9-huge")


def storage(gcloud):
    file, large = gcloud.home / "file", gcloud.home / "large"
    file.write_text("one\n")
    large.write_bytes(os.urandom(9 * 1024 * 1024))  # gcloud uploads from 8 MiB on in resumable form
    bucket = "gs://tests-script"
    gcloud.refused("not found: 404", "storage", "cp", file, f"{bucket}/a")
    gcloud(*BUCKETS, "create", bucket, "--location=us-central1", "--uniform-bucket-level-access")
    assert gcloud(*BUCKETS, "describe", bucket)["uniform_bucket_level_access"]
    gcloud.refused("HTTPError 409", *BUCKETS, "create", bucket, "--location=US")
    rules = gcloud.home / "rules"
    rules.write_text(json.dumps(RULES))
    settings = ("--versioning", "--update-labels=a=b", "--soft-delete-duration=0", f"--lifecycle-file={rules}")
    gcloud(*BUCKETS, "update", bucket, *settings)
    shown = gcloud(*BUCKETS, "describe", bucket)
    assert (shown["location"], shown["versioning_enabled"], shown["labels"]) == ("US-CENTRAL1", True, {"a": "b"})
    assert shown["lifecycle_config"] == RULES
    gcloud("storage", "cp", file, large, f"{bucket}/x/")
    assert gcloud("storage", "cat", f"{bucket}/x/file", plain=True) == "one\n"
    gcloud.refused("HTTPError 412", "storage", "cp", file, f"{bucket}/x/file", "--if-generation-match=0")
    gcloud(*OBJECTS, "update", f"{bucket}/x/file", "--custom-metadata=k=v")
    assert gcloud(*OBJECTS, "describe", f"{bucket}/x/file")["custom_fields"] == {"k": "v"}
    gcloud("storage", "mv", f"{bucket}/x/file", f"{bucket}/y")
    assert gcloud("storage", "ls", "-r", bucket, plain=True).split().count(f"{bucket}/y") == 1
    gcloud.refused("matched no objects", "storage", "cat", f"{bucket}/x/file")
    gcloud(*OBJECTS, "compose", f"{bucket}/y", f"{bucket}/y", f"{bucket}/z")
    assert gcloud("storage", "cat", f"{bucket}/z", plain=True) == "one\none\n"
    gcloud("storage", "cp", f"{bucket}/x/large", gcloud.home / "back")
    assert (gcloud.home / "back").read_bytes() == large.read_bytes()
    member = ("--member=user:me@example.org", "--role=roles/storage.objectViewer")
    gcloud(*BUCKETS, "add-iam-policy-binding", bucket, *member)
    policy = gcloud(*BUCKETS, "get-iam-policy", bucket)
    assert [binding["role"] for binding in policy["bindings"]] == ["roles/storage.objectViewer"]
    assert str(9 * 1024 * 1024) in gcloud("storage", "du", f"{bucket}/x/large", plain=True)
    gcloud.refused("Bucket is not empty", *BUCKETS, "delete", bucket)
    gcloud("storage", "rm", f"{bucket}/z")
    gcloud.refused("not found: 404", *OBJECTS, "describe", f"{bucket}/z")
    gcloud("storage", "rm", "-r", bucket)
    gcloud.refused("not found: 404", *BUCKETS, "describe", bucket)


def test_the_whole_script(shared_cloud, tmp_path):
    shared_cloud.add_faults(FAULTS)
    Gcloud.counts.clear()
    parts = (node_life, queued_life, what_zones_offer, instance_life, surroundings, storage)
    users = [Gcloud(shared_cloud, tmp_path / part.__name__) for part in parts]
    with ThreadPoolExecutor(len(parts)) as pool:
        lanes = [pool.submit(part, user) for part, user in zip(parts, users, strict=True)]
    for lane in lanes:
        lane.result()
    assert [user.changed for user in users] == [()] * len(parts)
    assert Gcloud.counts["tpu"] >= 30
    assert Gcloud.counts["compute"] >= 20
    assert Gcloud.counts["storage"] >= 20
    assert Gcloud.counts["refusals"] >= 25
    assert all(fault["fired_at"] for fault in shared_cloud.faults())
    left = shared_cloud.status()
    assert (left["nodes"], left["instances"], left["buckets"]) == ([], [], [])
