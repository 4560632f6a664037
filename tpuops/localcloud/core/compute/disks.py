"""Disks as records: made, listed, resized, deleted. Imitated: none of them holds anything but a machine's boot disk."""

from __future__ import annotations

from tpuops.localcloud.core.compute import catalogue, operations, shape
from tpuops.localcloud.core.compute.instances import zone_exists
from tpuops.localcloud.core.compute.links import last, link, zone_link
from tpuops.localcloud.core.compute.pages import by_scope, shown_page
from tpuops.localcloud.core.compute.transitions import DISK
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

DEFAULT_GB = "500"


def insert(call: Call) -> Answer:
    """POST .../disks."""
    zone_exists(call)
    body = call.body()
    name, project, zone = str(body.get("name") or ""), call.params["project"], call.params["zone"]
    if not shape.NAME.match(name):
        raise shape.invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
    if call.world.get(DISK, f"{project}/{zone}/{name}") is not None:
        raise refuse("compute.exists", name=_path(call, name))
    kind = last(str(body.get("type") or "pd-standard"))
    disk: Document = {
        "kind": "compute#disk",
        "id": call.scene.draw.number(),
        "name": name,
        "zone": zone_link(project, zone),
        "status": "READY",
        "sizeGb": str(body.get("sizeGb") or DEFAULT_GB),
        "type": link(f"projects/{project}/zones/{zone}/diskTypes/{kind}"),
        "creationTimestamp": timestamp(call.now),
        "selfLink": link(_path(call, name)),
    }
    call.world.put(DISK, f"{project}/{zone}/{name}", disk)
    return operations.admit(call, "insert", _path(call, name), disk["id"])


def get(call: Call) -> Answer:
    """GET .../disks/D."""
    return existing(call, call.params["disk"])


def listing(call: Call) -> Answer:
    """GET .../disks."""
    zone_exists(call)
    found = call.world.items(DISK, f"{call.params['project']}/{call.params['zone']}/")
    return shown_page(call, "compute#diskList", found)


def aggregated_list(call: Call) -> Answer:
    """GET projects/P/aggregated/disks."""
    project = call.params["project"]
    scopes = {f"zones/{zone}": call.world.items(DISK, f"{project}/{zone}/") for zone in catalogue.zones()}
    return by_scope(call, "compute#diskAggregatedList", "disks", scopes)


def resize(call: Call) -> Answer:
    """POST .../disks/D/resize: it only grows."""
    disk = existing(call, call.params["disk"])
    wanted = str(call.body().get("sizeGb") or "0")
    if int(wanted) < int(disk["sizeGb"]):
        raise shape.invalid("sizeGb", wanted, "Disk size cannot be decreased.")
    key = f"{call.params['project']}/{call.params['zone']}/{disk['name']}"
    call.world.put(DISK, key, {**disk, "sizeGb": wanted})
    return operations.admit(call, "resizeDisk", _path(call, disk["name"]), disk["id"])


def delete(call: Call) -> Answer:
    """DELETE .../disks/D: not while an instance uses it."""
    disk = existing(call, call.params["disk"])
    if disk.get("users"):
        raise refuse("compute.in-use", name=_path(call, disk["name"]), user=last(disk["users"][0]))
    call.world.drop(DISK, f"{call.params['project']}/{call.params['zone']}/{disk['name']}")
    return operations.admit(call, "delete", _path(call, disk["name"]), disk["id"])


def types_list(call: Call) -> Answer:
    """GET .../diskTypes."""
    zone_exists(call)
    return shown_page(call, "compute#diskTypeList", ((name, _type(call, name)) for name in catalogue.DISK_TYPES))


def types_get(call: Call) -> Answer:
    """GET .../diskTypes/T."""
    zone_exists(call)
    if call.params["type"] not in catalogue.DISK_TYPES:
        raise refuse("compute.absent", name=f"{_path(call, '')[:-6]}diskTypes/{call.params['type']}")
    return _type(call, call.params["type"])


def existing(call: Call, name: str) -> Document:
    """The disk of that name in the call's zone. Raises where there is none."""
    zone_exists(call)
    disk = call.world.get(DISK, f"{call.params['project']}/{call.params['zone']}/{name}")
    if disk is None:
        raise refuse("compute.absent", name=_path(call, name))
    return disk


def _path(call: Call, name: str) -> str:
    return f"projects/{call.params['project']}/zones/{call.params['zone']}/disks/{name}"


def _type(call: Call, name: str) -> Document:
    project, zone = call.params["project"], call.params["zone"]
    return {
        "kind": "compute#diskType",
        "name": name,
        "zone": zone_link(project, zone),
        "validDiskSize": "10GB-65536GB",
        "defaultDiskSizeGb": "500",
        "selfLink": link(f"projects/{project}/zones/{zone}/diskTypes/{name}"),
    }
