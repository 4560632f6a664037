"""The read-only world around instances: project, zones, regions, machine types, images."""

from __future__ import annotations

from collections.abc import Sequence

from tpuops.facts.catalogue import region_of
from tpuops.localcloud.core.compute import catalogue, quotas, shape
from tpuops.localcloud.core.compute.instances import zone_exists
from tpuops.localcloud.core.compute.links import link, zone_link
from tpuops.localcloud.core.compute.pages import by_scope, shown_page
from tpuops.localcloud.core.draw import default_account, project_number
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

EPOCH = "2020-01-01T00:00:00.000-08:00"


def projects_get(call: Call) -> Answer:
    """GET projects/P: any project exists; its number follows from its id."""
    project = call.params["project"]
    stored = call.world.get("compute.project", project) or {"items": []}
    return {
        "kind": "compute#project",
        "id": project_number(project),
        "name": project,
        "creationTimestamp": EPOCH,
        "commonInstanceMetadata": shape.metadata(list(stored["items"])),
        "defaultServiceAccount": default_account(project),
        "defaultNetworkTier": "PREMIUM",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "selfLink": link(f"projects/{project}"),
    }


def zones_get(call: Call) -> Answer:
    """GET projects/P/zones/Z."""
    zone = call.params["zone"]
    if zone not in catalogue.zones():
        raise refuse("compute.absent", name=f"projects/{call.params['project']}/zones/{zone}")
    return _zone(call.params["project"], zone)


def zones_list(call: Call) -> Answer:
    """GET projects/P/zones."""
    project = call.params["project"]
    return shown_page(call, "compute#zoneList", ((zone, _zone(project, zone)) for zone in catalogue.zones()))


def regions_get(call: Call) -> Answer:
    """GET projects/P/regions/R."""
    region = call.params["region"]
    if region not in catalogue.regions():
        raise refuse("compute.absent", name=f"projects/{call.params['project']}/regions/{region}")
    return {**_region(call.params["project"], region), "quotas": list(quotas.shown(call, region))}


def regions_list(call: Call) -> Answer:
    """GET projects/P/regions."""
    project = call.params["project"]
    return shown_page(
        call, "compute#regionList", ((region, _region(project, region)) for region in catalogue.regions())
    )


def machine_types_get(call: Call) -> Answer:
    """GET .../machineTypes/T."""
    zone_exists(call)
    name = call.params["type"]
    if name not in catalogue.machine_types() or settings.lacks(call.world, name):
        path = f"projects/{call.params['project']}/zones/{call.params['zone']}/machineTypes/{name}"
        raise refuse("compute.absent", name=path)
    return _machine_type(call, name)


def machine_types_list(call: Call) -> Answer:
    """GET .../machineTypes."""
    zone_exists(call)
    offered = (name for name in sorted(catalogue.machine_types()) if not settings.lacks(call.world, name))
    found = ((name, _machine_type(call, name)) for name in offered)
    return shown_page(call, "compute#machineTypeList", found)


def images_get(call: Call) -> Answer:
    """GET projects/P/global/images/I."""
    for (project, family), name in catalogue.IMAGES.items():
        if (project, name) == (call.params["project"], call.params["image"]):
            return _image(project, family)
    raise refuse("compute.absent", name=f"projects/{call.params['project']}/global/images/{call.params['image']}")


def images_from_family(call: Call) -> Answer:
    """GET projects/P/global/images/family/F."""
    return _family(call)


def image_family_view(call: Call) -> Answer:
    """GET projects/P/zones/Z/imageFamilyViews/F: what gcloud asks; the zone may be `-`."""
    return {"image": _family(call)}


def images_list(call: Call) -> Answer:
    """GET projects/P/global/images."""
    project = call.params["project"]
    found = [(name, _image(owner, family)) for (owner, family), name in catalogue.IMAGES.items() if owner == project]
    return shown_page(call, "compute#imageList", sorted(found, key=lambda entry: entry[0]))


def machine_types_aggregated(call: Call) -> Answer:
    """GET projects/P/aggregated/machineTypes; the same everywhere."""
    names = sorted(catalogue.machine_types())
    scopes = {f"zones/{zone}": [(name, _type(call, zone, name)) for name in names] for zone in catalogue.zones()}
    return by_scope(call, "compute#machineTypeAggregatedList", "machineTypes", scopes)


def _zone(project: str, zone: str) -> Document:
    return {
        "kind": "compute#zone",
        "id": project_number(zone),
        "name": zone,
        "description": zone,
        "status": "UP",
        "region": link(f"projects/{project}/regions/{region_of(zone)}"),
        "selfLink": zone_link(project, zone),
    }


def _region(project: str, region: str) -> Document:
    zones: Sequence[str] = [zone for zone in catalogue.zones() if region_of(zone) == region]
    return {
        "kind": "compute#region",
        "id": project_number(region),
        "name": region,
        "description": region,
        "status": "UP",
        "zones": [zone_link(project, zone) for zone in zones],
        "selfLink": link(f"projects/{project}/regions/{region}"),
    }


def _machine_type(call: Call, name: str) -> Document:
    return _type(call, call.params["zone"], name)


def _type(call: Call, zone: str, name: str) -> Document:
    project = call.params["project"]
    cpus, memory = catalogue.machine_types()[name]
    return {
        "kind": "compute#machineType",
        "id": project_number(name),
        "name": name,
        "guestCpus": cpus,
        "memoryMb": memory,
        "isSharedCpu": name in catalogue.FIXED,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "zone": zone,
        "selfLink": link(f"projects/{project}/zones/{zone}/machineTypes/{name}"),
    }


def _family(call: Call) -> Document:
    project, family = call.params["project"], call.params["family"]
    if (project, family) not in catalogue.IMAGES:
        raise refuse("compute.absent", name=f"projects/{project}/global/images/family/{family}")
    return _image(project, family)


def _image(project: str, family: str) -> Document:
    name = catalogue.IMAGES[project, family]
    return {
        "kind": "compute#image",
        "id": project_number(name),
        "name": name,
        "family": family,
        "status": "READY",
        "diskSizeGb": "10",
        "architecture": "X86_64",
        "sourceType": "RAW",
        "creationTimestamp": EPOCH,
        "selfLink": link(f"projects/{project}/global/images/{name}"),
    }
