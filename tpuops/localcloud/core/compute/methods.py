"""Compute's methods: which path reaches which function. Data only.

Every change takes a request id: sent twice, it is made once (google-cloud.md 3.3.5).
"""

from __future__ import annotations

from dataclasses import replace

from tpuops.localcloud.core.compute import changes, disks, instances, network, project, routers, surroundings
from tpuops.localcloud.core.compute import operations as zone_operations
from tpuops.localcloud.core.routes import Route
from tpuops.localcloud.core.scene import Answer, Call, Method

_PROJECT = "/compute/v1/projects/{project}"
_ZONE = f"{_PROJECT}/zones/{{zone}}"
_INSTANCE = f"{_ZONE}/instances/{{instance}}"
_SUBNETWORKS = f"{_PROJECT}/regions/{{region}}/subnetworks"
_ROUTERS = f"{_PROJECT}/regions/{{region}}/routers"
_FIREWALLS = f"{_PROJECT}/global/firewalls"
_GLOBAL_OPERATION = f"{_PROJECT}/global/operations/{{operation}}"
_REGION_OPERATION = f"{_PROJECT}/regions/{{region}}/operations/{{operation}}"
_ASKED = "beside `default` there is what was asked for, unless told which are the only ones"
_RECORD = "a disk is a record, and holds nothing"
_ALL = (
    Route("GET", _PROJECT, "compute.projects.get", surroundings.projects_get),
    Route("GET", f"{_PROJECT}/zones", "compute.zones.list", surroundings.zones_list),
    Route("GET", _ZONE, "compute.zones.get", surroundings.zones_get),
    Route("GET", f"{_PROJECT}/regions", "compute.regions.list", surroundings.regions_list),
    Route("GET", f"{_PROJECT}/regions/{{region}}", "compute.regions.get", surroundings.regions_get),
    Route("GET", f"{_ZONE}/machineTypes", "compute.machineTypes.list", surroundings.machine_types_list),
    Route("GET", f"{_ZONE}/machineTypes/{{type}}", "compute.machineTypes.get", surroundings.machine_types_get),
    Route("GET", f"{_ZONE}/disks", "compute.disks.list", disks.listing),
    Route("GET", f"{_ZONE}/disks/{{disk}}", "compute.disks.get", disks.get),
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
    Route("GET", f"{_PROJECT}/global/networks", "compute.networks.list", network.networks_list),
    Route("GET", f"{_PROJECT}/global/networks/{{network}}", "compute.networks.get", network.networks_get, _ASKED),
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
    Route("POST", f"{_INSTANCE}/reset", "compute.instances.reset", changes.reset),
    Route("POST", f"{_INSTANCE}/setScheduling", "compute.instances.setScheduling", changes.set_scheduling),
    Route("POST", f"{_INSTANCE}/setServiceAccount", "compute.instances.setServiceAccount", changes.set_service_account),
    Route("POST", f"{_INSTANCE}/setMachineType", "compute.instances.setMachineType", changes.set_machine_type),
    Route("POST", f"{_INSTANCE}/setTags", "compute.instances.setTags", changes.set_tags),
    Route(
        "POST",
        f"{_INSTANCE}/setDeletionProtection",
        "compute.instances.setDeletionProtection",
        changes.set_deletion_protection,
    ),
    Route("GET", f"{_INSTANCE}/serialPort", "compute.instances.getSerialPortOutput", changes.serial, "a line a boot"),
    Route("POST", f"{_INSTANCE}/attachDisk", "compute.instances.attachDisk", changes.attach_disk, _RECORD),
    Route("POST", f"{_INSTANCE}/detachDisk", "compute.instances.detachDisk", changes.detach_disk, _RECORD),
    Route("POST", f"{_ZONE}/disks", "compute.disks.insert", disks.insert, _RECORD),
    Route("POST", f"{_ZONE}/disks/{{disk}}/resize", "compute.disks.resize", disks.resize, _RECORD),
    Route("DELETE", f"{_ZONE}/disks/{{disk}}", "compute.disks.delete", disks.delete),
    Route("GET", f"{_PROJECT}/aggregated/disks", "compute.disks.aggregatedList", disks.aggregated_list),
    Route("GET", f"{_ZONE}/diskTypes", "compute.diskTypes.list", disks.types_list),
    Route("GET", f"{_ZONE}/diskTypes/{{type}}", "compute.diskTypes.get", disks.types_get),
    Route(
        "GET",
        f"{_PROJECT}/aggregated/machineTypes",
        "compute.machineTypes.aggregatedList",
        surroundings.machine_types_aggregated,
    ),
    Route(
        "POST",
        f"{_PROJECT}/setCommonInstanceMetadata",
        "compute.projects.setCommonInstanceMetadata",
        project.set_common_metadata,
    ),
    Route("GET", _SUBNETWORKS, "compute.subnetworks.list", network.subnetworks_list),
    Route("GET", f"{_SUBNETWORKS}/{{subnetwork}}", "compute.subnetworks.get", network.subnetworks_get, _ASKED),
    Route(
        "POST",
        f"{_SUBNETWORKS}/{{subnetwork}}/setPrivateIpGoogleAccess",
        "compute.subnetworks.setPrivateIpGoogleAccess",
        network.set_private_access,
        "a flag, without which nothing is closed",
    ),
    Route("GET", _ROUTERS, "compute.routers.list", routers.listing),
    Route("POST", _ROUTERS, "compute.routers.insert", routers.insert, "a router is a record"),
    Route("GET", f"{_ROUTERS}/{{router}}", "compute.routers.get", routers.get),
    Route("DELETE", f"{_ROUTERS}/{{router}}", "compute.routers.delete", routers.delete),
    Route(
        "GET",
        f"{_PROJECT}/aggregated/subnetworks",
        "compute.subnetworks.aggregatedList",
        network.subnetworks_aggregated,
    ),
    Route("GET", f"{_PROJECT}/aggregated/addresses", "compute.addresses.aggregatedList", network.addresses_aggregated),
    Route("GET", f"{_PROJECT}/global/addresses", "compute.globalAddresses.list", network.addresses_list),
    Route("GET", f"{_PROJECT}/regions/{{region}}/addresses", "compute.addresses.list", network.addresses_list),
    Route("GET", _FIREWALLS, "compute.firewalls.list", network.firewalls_list),
    Route("POST", _FIREWALLS, "compute.firewalls.insert", network.firewalls_insert, "a rule stops nothing"),
    Route("GET", f"{_FIREWALLS}/{{firewall}}", "compute.firewalls.get", network.firewalls_get),
    Route("PATCH", f"{_FIREWALLS}/{{firewall}}", "compute.firewalls.patch", network.firewalls_patch),
    Route("DELETE", f"{_FIREWALLS}/{{firewall}}", "compute.firewalls.delete", network.firewalls_delete),
    Route(
        "GET",
        f"{_PROJECT}/aggregated/operations",
        "compute.globalOperations.aggregatedList",
        zone_operations.aggregated_list,
    ),
    Route("GET", f"{_PROJECT}/global/operations", "compute.globalOperations.list", zone_operations.listing),
    Route("GET", _REGION_OPERATION, "compute.regionOperations.get", zone_operations.get),
    Route("POST", f"{_REGION_OPERATION}/wait", "compute.regionOperations.wait", zone_operations.wait),
    Route("GET", _GLOBAL_OPERATION, "compute.globalOperations.get", zone_operations.get),
    Route("POST", f"{_GLOBAL_OPERATION}/wait", "compute.globalOperations.wait", zone_operations.wait),
)


def _once(function: Method) -> Method:
    def answered(call: Call) -> Answer:
        return zone_operations.repeated(call) or function(call)

    return answered


METHODS = tuple(replace(route, function=_once(route.function)) if route.mutating else route for route in _ALL)
