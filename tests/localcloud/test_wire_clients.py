"""Google's own three clients against the embedded cloud over the wire: its definition of correct."""

import os
import time

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1, storage, tpu_v2

pytestmark = pytest.mark.wire


@pytest.fixture
def tpu(shared_cloud):
    options = {"api_endpoint": shared_cloud.url}
    return tpu_v2.TpuClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)


@pytest.fixture
def bucket(shared_cloud, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", shared_cloud.url)
    return storage.Client(project=shared_cloud.project).create_bucket("tests-bucket", location="us-central1")


class Compute:
    """The compute clients that share one endpoint; `.result()` of the library would poll Google itself."""

    def __init__(self, url):
        options = {"credentials": AnonymousCredentials(), "client_options": {"api_endpoint": url}}
        self.instances = compute_v1.InstancesClient(**options)
        self.operations = compute_v1.ZoneOperationsClient(**options)
        self.machine_types = compute_v1.MachineTypesClient(**options)
        self.projects = compute_v1.ProjectsClient(**options)
        self.place = {"project": "local-tests", "zone": "us-central1-a"}

    def wait(self, operation):
        return self.operations.wait(operation=operation.name, **self.place)


@pytest.fixture
def compute(shared_cloud):
    return Compute(shared_cloud.url)


def instance(name):
    return compute_v1.Instance(
        name=name,
        machine_type="zones/us-central1-a/machineTypes/e2-small",
        disks=[{"boot": True, "auto_delete": True, "initialize_params": {"disk_size_gb": 10}}],
        network_interfaces=[{"network": "global/networks/default", "access_configs": [{"name": "x"}]}],
        labels={"a": "b"},
    )


def test_google_cloud_tpu_takes_a_node_through_its_life(shared_cloud, tpu):
    parent = "projects/local-tests/locations/us-central1-a"
    node = tpu_v2.Node(
        accelerator_config={"type_": "V3", "topology": "2x2"},
        runtime_version="tpu-ubuntu2204-base",
        labels={"a": "b"},
        network_config={"enable_external_ips": True},
    )
    ready = tpu.create_node(parent=parent, node_id="n1", node=node).result(timeout=20)
    assert (ready.state, ready.health) == (tpu_v2.Node.State.READY, tpu_v2.Node.Health.HEALTHY)
    assert (ready.accelerator_type, ready.labels, ready.id > 0) == ("v3-8", {"a": "b"}, True)
    assert ready.network_endpoints[0].access_config.external_ip.startswith("127.")
    assert [found.name for found in tpu.list_nodes(parent="projects/local-tests/locations/-")] == [ready.name]
    with pytest.raises(exceptions.Conflict):
        tpu.create_node(parent=parent, node_id="n1", node=node)
    ready.labels["c"] = "d"
    updated = tpu.update_node(node=ready, update_mask={"paths": ["labels"]}).result(timeout=20)
    assert updated.labels == {"a": "b", "c": "d"}
    stopped = tpu.stop_node(tpu_v2.StopNodeRequest(name=ready.name)).result(timeout=20)
    assert stopped.state == tpu_v2.Node.State.STOPPED
    started = tpu.start_node(tpu_v2.StartNodeRequest(name=ready.name)).result(timeout=20)
    assert started.state == tpu_v2.Node.State.READY
    assert tpu.get_guest_attributes(tpu_v2.GetGuestAttributesRequest(name=ready.name)).guest_attributes
    tpu.delete_node(name=ready.name).result(timeout=20)
    with pytest.raises(exceptions.NotFound):
        tpu.get_node(name=ready.name)
    assert [entry["method"] for entry in shared_cloud.requests(mutating=True)] == [
        "tpu.nodes.create",
        "tpu.nodes.create",
        "tpu.nodes.patch",
        "tpu.nodes.stop",
        "tpu.nodes.start",
        "tpu.nodes.delete",
    ]


def test_google_cloud_tpu_reads_what_zones_offer(tpu):
    parent = "projects/local-tests/locations/us-central1-a"
    types = {found.type_: found for found in tpu.list_accelerator_types(parent=parent)}
    assert types["v3-8"].accelerator_configs[0].topology == "2x2"
    assert tpu.get_accelerator_type(name=f"{parent}/acceleratorTypes/v3-8").type_ == "v3-8"
    assert "tpu-ubuntu2204-base" in [found.version for found in tpu.list_runtime_versions(parent=parent)]
    assert tpu.get_runtime_version(name=f"{parent}/runtimeVersions/tpu-ubuntu2204-base").version
    with pytest.raises(exceptions.Forbidden) as refused:
        tpu.get_accelerator_type(name="projects/p/locations/mars/acceleratorTypes/v3-8")
    assert refused.value.reason == "LOCATION_POLICY_VIOLATED"


def test_a_late_capacity_failure_arrives_in_the_operation(shared_cloud, tpu):
    failure = {"code": 8, "message": "There is no more capacity in the zone [EID: 0x1]"}
    shared_cloud.add_faults([{"on": {"method": "tpu.nodes.create"}, "do": {"fail_operation": failure}}])
    node = tpu_v2.Node(accelerator_type="v3-8", runtime_version="tpu-ubuntu2204-base")
    operation = tpu.create_node(parent="projects/local-tests/locations/us-central1-a", node_id="n1", node=node)
    with pytest.raises(exceptions.ResourceExhausted, match="no more capacity"):
        operation.result(timeout=20)
    assert shared_cloud.faults()[0]["fired_at"] == pytest.approx(time.time(), abs=30)
    assert shared_cloud.status()["nodes"] == []


def test_google_cloud_compute_takes_an_instance_through_its_life(compute):
    place = compute.place
    begun = compute.instances.insert_unary(instance_resource=instance("vm1"), **place)
    assert compute.wait(begun).status == compute_v1.Operation.Status.DONE
    running = compute.instances.get(instance="vm1", **place)
    assert (running.status, running.labels) == ("RUNNING", {"a": "b"})
    with pytest.raises(exceptions.Conflict):
        compute.instances.insert_unary(instance_resource=instance("vm1"), **place)
    labels = compute_v1.InstancesSetLabelsRequest(labels={"e": "f"}, label_fingerprint=running.label_fingerprint)
    body = {"instances_set_labels_request_resource": labels}
    compute.wait(compute.instances.set_labels_unary(instance="vm1", **body, **place))
    with pytest.raises(exceptions.PreconditionFailed):
        compute.instances.set_labels_unary(instance="vm1", **body, **place)
    items = compute_v1.Metadata(items=[{"key": "k", "value": "v"}], fingerprint=running.metadata.fingerprint)
    compute.wait(compute.instances.set_metadata_unary(instance="vm1", metadata_resource=items, **place))
    listed = compute.instances.list(compute_v1.ListInstancesRequest(filter="labels.e=f", **place))
    assert [(found.name, found.metadata.items[0].value) for found in listed] == [("vm1", "v")]
    scopes = compute.instances.aggregated_list(project=place["project"])
    assert [zone for zone, scope in scopes if scope.instances] == ["zones/us-central1-a"]
    compute.wait(compute.instances.stop_unary(instance="vm1", **place))
    assert compute.instances.get(instance="vm1", **place).status == "TERMINATED"
    compute.wait(compute.instances.start_unary(instance="vm1", **place))
    compute.wait(compute.instances.delete_unary(instance="vm1", **place))
    with pytest.raises(exceptions.NotFound):
        compute.instances.get(instance="vm1", **place)


def test_google_cloud_compute_reads_the_surroundings(compute):
    assert compute.machine_types.get(machine_type="e2-small", **compute.place).guest_cpus == 2
    project = compute.projects.get(project="local-tests")
    assert project.default_service_account == f"{project.id}-compute@developer.gserviceaccount.com"


def test_google_cloud_storage_writes_reads_lists_and_deletes(bucket):
    blob = bucket.blob("a/b c%2F?.txt")
    blob.metadata = {"k": "v"}
    blob.upload_from_string(b"hello", content_type="text/plain", if_generation_match=0)
    assert (blob.size, blob.md5_hash) == (5, "XUFAKrxLKna5cZ2REBfFkg==")
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob(blob.name).upload_from_string(b"other", if_generation_match=0)
    fresh = bucket.get_blob(blob.name)
    assert (fresh.download_as_bytes(), fresh.metadata, fresh.content_type) == (b"hello", {"k": "v"}, "text/plain")
    assert fresh.download_as_bytes(start=1, end=3) == b"ell"
    fresh.metadata = {"n": "m"}
    fresh.patch(if_metageneration_match=fresh.metageneration)
    assert [found.name for found in bucket.client.list_blobs(bucket, prefix="a/")] == [blob.name]
    copied = bucket.copy_blob(fresh, bucket, "copy")
    assert copied.download_as_bytes() == b"hello"
    bucket.blob("both").compose([fresh, copied])
    assert bucket.blob("both").download_as_bytes() == b"hellohello"
    with pytest.raises(exceptions.Conflict):
        bucket.delete()
    fresh.delete(if_generation_match=fresh.generation)
    assert bucket.get_blob(blob.name) is None
    bucket.delete(force=True)
    assert bucket.client.lookup_bucket("tests-bucket") is None


def test_google_cloud_storage_uploads_in_chunks(bucket):
    data = os.urandom(3 * 256 * 1024 + 17)
    blob = bucket.blob("big", chunk_size=256 * 1024)
    blob.upload_from_string(data, checksum="crc32c")
    assert bucket.blob("big").download_as_bytes() == data


def test_google_cloud_storage_tells_whose_bucket_it_is(bucket):
    account = bucket.client.get_service_account_email()
    assert account == f"service-{bucket.project_number}@gs-project-accounts.iam.gserviceaccount.com"
    assert (bucket.location, bucket.location_type) == ("US-CENTRAL1", "region")
    with pytest.raises(exceptions.Conflict, match="you already own it"):
        bucket.client.create_bucket("tests-bucket", location="us-central1", retry=None)
