"""Unmodified gcloud against the embedded cloud. A missing gcloud fails, unless TPUOPS_WITHOUT_GCLOUD=1 says so."""

import json
import os
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest

pytestmark = [pytest.mark.wire, pytest.mark.gcloud]


@pytest.fixture
def gcloud(shared_cloud, tmp_path):
    """Runs gcloud with a home of its own; gives back its JSON, or with `fails` its error text."""
    program = shutil.which("gcloud")
    assert program, "gcloud is missing; TPUOPS_WITHOUT_GCLOUD=1 leaves these tests out"
    token = tmp_path / "token"
    token.write_text(urlsplit(shared_cloud.url).path.strip("/"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TPUOPS_TESTS": os.environ.get("TPUOPS_TESTS", ""),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": shared_cloud.project,
        "CLOUDSDK_COMPUTE_ZONE": shared_cloud.zone,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{shared_cloud.url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{shared_cloud.url}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{shared_cloud.url}/storage/v1/",
    }

    def run(*words, fails=False, plain=False):
        command = [program, *map(str, words), "--format=json"]
        done = subprocess.run(
            command[:-1] if plain else command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode != 0) is fails, done.stderr
        if fails:
            return done.stderr
        return done.stdout if plain else json.loads(done.stdout or "null")

    return run


def test_tpu_vm_commands(shared_cloud, gcloud):
    tpu = ("compute", "tpus", "tpu-vm")
    kind = ("--accelerator-type=v3-8", "--version=tpu-ubuntu2204-base")
    gcloud(*tpu, "create", "n1", *kind, "--labels=a=b", "--metadata=k=v")
    node = gcloud(*tpu, "describe", "n1")
    assert (node["state"], node["labels"], node["metadata"]) == ("READY", {"a": "b"}, {"k": "v"})
    assert "ALREADY_EXISTS" in gcloud(*tpu, "create", "n1", *kind, fails=True)
    assert [found["name"].rsplit("/", 1)[1] for found in gcloud(*tpu, "list")] == ["n1"]
    gcloud(*tpu, "stop", "n1")
    assert gcloud(*tpu, "describe", "n1")["state"] == "STOPPED"
    gcloud(*tpu, "delete", "n1", "--quiet")
    assert "NOT_FOUND" in gcloud(*tpu, "describe", "n1", fails=True)
    assert shared_cloud.status()["nodes"] == []


def test_a_stockout_is_gclouds_error(shared_cloud, gcloud):
    failure = {"code": 8, "message": "There is no more capacity in the zone"}
    shared_cloud.add_faults([{"on": {"method": "tpu.nodes.create"}, "do": {"fail_operation": failure}}])
    kind = ("--accelerator-type=v3-8", "--version=tpu-ubuntu2204-base")
    assert "no more capacity" in gcloud("compute", "tpus", "tpu-vm", "create", "n1", *kind, fails=True)


def test_instance_commands(shared_cloud, gcloud):
    words = ("--machine-type=e2-small", "--image-family=debian-12", "--image-project=debian-cloud", "--labels=a=b")
    limit = ("--max-run-duration=1h", "--instance-termination-action=DELETE")
    gcloud("compute", "instances", "create", "vm1", *words, *limit, "--scopes=cloud-platform")
    vm = gcloud("compute", "instances", "describe", "vm1")
    assert (vm["status"], vm["labels"], vm["scheduling"]["maxRunDuration"]["seconds"]) == (
        "RUNNING",
        {"a": "b"},
        "3600",
    )
    assert vm["serviceAccounts"][0]["scopes"] == ["https://www.googleapis.com/auth/cloud-platform"]
    assert "already exists" in gcloud("compute", "instances", "create", "vm1", *words, fails=True)
    assert [found["name"] for found in gcloud("compute", "instances", "list", "--filter=labels.a=b")] == ["vm1"]
    gcloud("compute", "instances", "delete", "vm1", "--quiet")
    assert shared_cloud.status()["instances"] == []


def test_storage_commands(shared_cloud, gcloud, tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_text("hello\n")
    large.write_bytes(os.urandom(9 * 1024 * 1024))  # gcloud uploads from 8 MiB on in resumable form
    gcloud("storage", "buckets", "create", "gs://tests-bkt", "--location=us-central1", "--uniform-bucket-level-access")
    assert "HTTPError 409" in gcloud("storage", "buckets", "create", "gs://tests-bkt", "--location=US", fails=True)
    gcloud("storage", "cp", small, large, "gs://tests-bkt/a/")
    assert gcloud("storage", "cat", "gs://tests-bkt/a/small", plain=True) == "hello\n"
    assert "gs://tests-bkt/a/large" in gcloud("storage", "ls", "-r", "gs://tests-bkt", plain=True)
    gcloud("storage", "cp", "gs://tests-bkt/a/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()
    gcloud("storage", "rm", "-r", "gs://tests-bkt")
    assert shared_cloud.status()["buckets"] == []
