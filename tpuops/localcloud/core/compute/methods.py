"""Compute's methods: which path reaches which function. Data only."""

from __future__ import annotations

from tpuops.localcloud.core.compute import instances, surroundings
from tpuops.localcloud.core.compute import operations as zone_operations
from tpuops.localcloud.core.routes import Route

_PROJECT = "/compute/v1/projects/{project}"
_ZONE = f"{_PROJECT}/zones/{{zone}}"
_INSTANCE = f"{_ZONE}/instances/{{instance}}"
METHODS = (
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
