"""The coverage table: every method the embedded cloud serves, and every action its timer knows."""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core import admin, machines
from tpuops.localcloud.core.compute import instances, surroundings
from tpuops.localcloud.core.compute import operations as zone_operations
from tpuops.localcloud.core.compute import transitions as compute_transitions
from tpuops.localcloud.core.identity import metadata, tokens
from tpuops.localcloud.core.routes import Route, Routes
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.storage import buckets, objects, uploads
from tpuops.localcloud.core.tpu import nodes, operations, places
from tpuops.localcloud.core.tpu import transitions as tpu_transitions
from tpuops.localcloud.core.world import Document

_LOCATION = "/v2/projects/{project}/locations/{zone}"
_NODE = f"{_LOCATION}/nodes/{{node}}"
_TPU = (
    Route("GET", "/v2/projects/{project}/locations", "tpu.locations.list", places.locations_list),
    Route("GET", _LOCATION, "tpu.locations.get", places.locations_get),
    Route("GET", f"{_LOCATION}/acceleratorTypes", "tpu.acceleratorTypes.list", places.accelerator_types_list),
    Route("GET", f"{_LOCATION}/acceleratorTypes/{{type}}", "tpu.acceleratorTypes.get", places.accelerator_types_get),
    Route("GET", f"{_LOCATION}/runtimeVersions", "tpu.runtimeVersions.list", places.runtime_versions_list),
    Route("GET", f"{_LOCATION}/runtimeVersions/{{runtime}}", "tpu.runtimeVersions.get", places.runtime_versions_get),
    Route("POST", f"{_LOCATION}/nodes", "tpu.nodes.create", nodes.create),
    Route("GET", f"{_LOCATION}/nodes", "tpu.nodes.list", nodes.listing),
    Route("GET", _NODE, "tpu.nodes.get", nodes.get),
    Route("PATCH", _NODE, "tpu.nodes.patch", nodes.patch),
    Route("DELETE", _NODE, "tpu.nodes.delete", nodes.delete),
    Route("POST", f"{_NODE}:stop", "tpu.nodes.stop", nodes.stop),
    Route("POST", f"{_NODE}:start", "tpu.nodes.start", nodes.start),
    Route("POST", f"{_NODE}:getGuestAttributes", "tpu.nodes.getGuestAttributes", nodes.get_guest_attributes),
    Route("GET", f"{_LOCATION}/operations", "tpu.operations.list", operations.operations_list),
    Route("GET", f"{_LOCATION}/operations/{{operation}}", "tpu.operations.get", operations.operations_get),
    Route("DELETE", f"{_LOCATION}/operations/{{operation}}", "tpu.operations.delete", operations.operations_delete),
    Route(
        "POST", f"{_LOCATION}/operations/{{operation}}:cancel", "tpu.operations.cancel", operations.operations_cancel
    ),
)

_PROJECT = "/compute/v1/projects/{project}"
_ZONE = f"{_PROJECT}/zones/{{zone}}"
_INSTANCE = f"{_ZONE}/instances/{{instance}}"
_COMPUTE = (
    Route("GET", _PROJECT, "compute.projects.get", surroundings.projects_get),
    Route("GET", f"{_PROJECT}/zones", "compute.zones.list", surroundings.zones_list),
    Route("GET", _ZONE, "compute.zones.get", surroundings.zones_get),
    Route("GET", f"{_PROJECT}/regions", "compute.regions.list", surroundings.regions_list),
    Route("GET", f"{_PROJECT}/regions/{{region}}", "compute.regions.get", surroundings.regions_get),
    Route("GET", f"{_ZONE}/machineTypes", "compute.machineTypes.list", surroundings.machine_types_list),
    Route("GET", f"{_ZONE}/machineTypes/{{type}}", "compute.machineTypes.get", surroundings.machine_types_get),
    Route("GET", f"{_ZONE}/disks", "compute.disks.list", surroundings.disks_list),
    Route("GET", f"{_ZONE}/disks/{{disk}}", "compute.disks.get", surroundings.disks_get),
    Route(
        "GET", f"{_ZONE}/imageFamilyViews/{{family}}", "compute.imageFamilyViews.get", surroundings.image_family_view
    ),
    Route("GET", f"{_PROJECT}/global/images", "compute.images.list", surroundings.images_list),
    Route(
        "GET",
        f"{_PROJECT}/global/images/family/{{family}}",
        "compute.images.getFromFamily",
        surroundings.images_from_family,
    ),
    Route("GET", f"{_PROJECT}/global/images/{{image}}", "compute.images.get", surroundings.images_get),
    Route("GET", f"{_PROJECT}/global/networks", "compute.networks.list", surroundings.networks_list),
    Route("GET", f"{_PROJECT}/global/networks/{{network}}", "compute.networks.get", surroundings.networks_get),
    Route("GET", f"{_PROJECT}/aggregated/instances", "compute.instances.aggregatedList", instances.aggregated_list),
    Route("POST", f"{_ZONE}/instances", "compute.instances.insert", instances.insert),
    Route("GET", f"{_ZONE}/instances", "compute.instances.list", instances.listing),
    Route("GET", _INSTANCE, "compute.instances.get", instances.get),
    Route("DELETE", _INSTANCE, "compute.instances.delete", instances.delete),
    Route("POST", f"{_INSTANCE}/stop", "compute.instances.stop", instances.stop),
    Route("POST", f"{_INSTANCE}/start", "compute.instances.start", instances.start),
    Route("POST", f"{_INSTANCE}/setMetadata", "compute.instances.setMetadata", instances.set_metadata),
    Route("POST", f"{_INSTANCE}/setLabels", "compute.instances.setLabels", instances.set_labels),
    Route(
        "GET", f"{_INSTANCE}/getGuestAttributes", "compute.instances.getGuestAttributes", instances.get_guest_attributes
    ),
    Route("GET", f"{_ZONE}/operations", "compute.zoneOperations.list", zone_operations.listing),
    Route("GET", f"{_ZONE}/operations/{{operation}}", "compute.zoneOperations.get", zone_operations.get),
    Route("POST", f"{_ZONE}/operations/{{operation}}/wait", "compute.zoneOperations.wait", zone_operations.wait),
)

_BUCKET = "/storage/v1/b/{bucket}"
_OBJECT = f"{_BUCKET}/o/{{object:path}}"
_TO = "b/{targetBucket}/o/{targetObject:path}"
_STORAGE = (
    Route("POST", "/storage/v1/b", "storage.buckets.insert", buckets.insert),
    Route("GET", "/storage/v1/b", "storage.buckets.list", buckets.listing),
    Route("GET", _BUCKET, "storage.buckets.get", buckets.get),
    Route("PATCH", _BUCKET, "storage.buckets.patch", buckets.patch),
    Route("DELETE", _BUCKET, "storage.buckets.delete", buckets.delete),
    Route("GET", f"{_BUCKET}/storageLayout", "storage.buckets.getStorageLayout", buckets.layout),
    Route("GET", f"{_BUCKET}/managedFolders", "storage.managedFolders.list", buckets.folders),
    Route("GET", f"{_BUCKET}/folders", "storage.folders.list", buckets.folders),
    Route("GET", f"{_BUCKET}/iam", "storage.buckets.getIamPolicy", buckets.get_policy),
    Route("PUT", f"{_BUCKET}/iam", "storage.buckets.setIamPolicy", buckets.set_policy),
    Route(
        "GET", "/storage/v1/projects/{project}/serviceAccount", "storage.serviceAccount.get", buckets.service_account
    ),
    Route("GET", f"{_BUCKET}/o", "storage.objects.list", objects.listing),
    Route("POST", f"{_BUCKET}/o/{{object:path}}/compose", "storage.objects.compose", objects.compose),
    Route("POST", f"{_OBJECT}/rewriteTo/{_TO}", "storage.objects.rewrite", objects.rewrite),
    Route("POST", f"{_OBJECT}/copyTo/{_TO}", "storage.objects.copy", objects.copy),
    Route("GET", _OBJECT, "storage.objects.get", objects.get),
    Route("GET", f"/download{_OBJECT}", "storage.objects.get", objects.get),
    Route("PATCH", _OBJECT, "storage.objects.patch", objects.patch),
    Route("PUT", _OBJECT, "storage.objects.update", objects.update),
    Route("DELETE", _OBJECT, "storage.objects.delete", objects.delete),
    Route("POST", f"/upload{_BUCKET}/o", "storage.objects.insert", uploads.insert),
    Route("PUT", f"/upload{_BUCKET}/o", "storage.objects.insert", uploads.resume),
    Route("DELETE", f"/upload{_BUCKET}/o", "storage.objects.cancelUpload", uploads.cancel),
    Route("POST", f"/resumable/upload{_BUCKET}/o", "storage.objects.insert", uploads.insert),
)

_METADATA = "/m/{machine}/computeMetadata/v1"
_REST = (
    Route("POST", "/token", "identity.token", tokens.token),
    Route("GET", "/tokeninfo", "identity.tokeninfo", tokens.tokeninfo),
    Route("POST", "/tokeninfo", "identity.tokeninfo", tokens.tokeninfo),
    Route("GET", "/m/{machine}", "metadata.ping", metadata.ping),
    Route("GET", "/m/{machine}/", "metadata.ping", metadata.ping),
    Route("PUT", f"{_METADATA}/instance/guest-attributes/{{path:path}}", "metadata.put", metadata.put_guest),
    Route("GET", f"{_METADATA}/", "metadata.get", metadata.get),
    Route("GET", f"{_METADATA}/{{path:path}}", "metadata.get", metadata.get),
    Route("GET", "/_cloud/status", "cloud.status", admin.status),
    Route("GET", "/_cloud/requests", "cloud.requests", admin.requests),
    Route("GET", "/_cloud/faults", "cloud.faults", admin.faults),
    Route("POST", "/_cloud/faults", "cloud.addFaults", admin.add_faults),
    Route("POST", "/_cloud/reset", "cloud.reset", admin.reset),
)

ROUTES = Routes((*_TPU, *_COMPUTE, *_STORAGE, *_REST))


def _boot_again(scene: Scene, timer: Document) -> None:
    machine = scene.world.get("machine", timer["machine"])
    if machine is not None and machine["running"]:
        machines.boot(scene, [timer["machine"]])


ACTIONS: Mapping[str, Action] = {
    **tpu_transitions.ACTIONS,
    **compute_transitions.ACTIONS,
    "machine.boot": _boot_again,
}
