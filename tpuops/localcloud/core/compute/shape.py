"""The instance document: what an insert request may say and what Compute makes of it. Changes nothing but counters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tpuops.facts.catalogue import region_of
from tpuops.localcloud.core.compute.catalogue import DEFAULT_IMAGE, IMAGES, machine_types
from tpuops.localcloud.core.compute.links import last, link, project_path, zone_link
from tpuops.localcloud.core.draw import default_account, fingerprint, parse_timestamp, timestamp
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.world import Document

NAME = re.compile(r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")
BOOT_DISK_GB = "10"
MOST_LABELS = 64


def check(call: Call, body: Mapping[str, Any]) -> None:
    """Raise where the request is not legal (google-cloud.md 3.1, 3.2)."""
    name = str(body.get("name") or "")
    if not NAME.match(name):
        raise invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
    for field in ("machineType", "disks", "networkInterfaces"):
        if not body.get(field):
            raise refuse("compute.required", field=f"resource.{field}")
    machine_type = last(str(body["machineType"]))
    if machine_type not in machine_types() or settings.lacks(call.world, machine_type):
        path = f"projects/{call.params['project']}/zones/{call.params['zone']}/machineTypes/{machine_type}"
        raise invalid("resource.machineType", str(body["machineType"]), f"The resource '{path}' was not found")
    check_labels("resource.labels", body.get("labels") or {})
    for index, disk in enumerate(body["disks"]):
        _check_image(index, str((disk.get("initializeParams") or {}).get("sourceImage") or ""))
    check_scheduling(call, body.get("scheduling") or {})


def check_labels(field: str, labels: Mapping[str, Any]) -> None:
    """Raise where a label is not legal: lower case, digits, `_` and `-`; a key begins with a letter (3.1.4)."""
    for key, value in labels.items():
        if not key[:1].isalpha() or not _is_legal(key) or not _is_legal(str(value)):
            raise invalid(field, key, "Label keys and values must be lower case and have at most 63 characters.")
    if len(labels) > MOST_LABELS:
        raise invalid(field, str(len(labels)), f"There may be at most {MOST_LABELS} labels.")


def _is_legal(text: str) -> bool:
    return len(text) <= 63 and text == text.lower() and all(char in "_-" or char.isalnum() for char in text)


def _check_image(index: int, source: str) -> None:
    """Raise where a public project has no such image; other projects' images are believed to be there."""
    parts = source.partition("projects/")[2].split("/")
    known = {known for named, family in IMAGES for known in (family, IMAGES[named, family]) if named == parts[0]}
    if known and parts[-1] not in known:
        field = f"resource.disks[{index}].initializeParams.sourceImage"
        raise invalid(field, source, "The referenced image resource cannot be found.")


def invalid(field: str, value: str, problem: str) -> Exception:
    """Compute's refusal of one field."""
    return refuse("compute.invalid", field=field, value=value, problem=problem)


def is_spot(shown: Mapping[str, Any]) -> bool:
    """Whether the instance may be taken away."""
    scheduling = shown.get("scheduling", {})
    return scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))


def document(call: Call, body: Mapping[str, Any]) -> Document:
    """The instance as the API shows it while it is being provisioned; addresses come when it runs."""
    project, zone, name = call.params["project"], call.params["zone"], str(body["name"])
    items = list((body.get("metadata") or {}).get("items") or [])
    labels = dict(body.get("labels") or {})
    shown: Document = {
        "kind": "compute#instance",
        "id": call.scene.draw.number(),
        "creationTimestamp": timestamp(call.now),
        "name": name,
        "zone": zone_link(project, zone),
        "machineType": link(f"projects/{project}/zones/{zone}/machineTypes/{last(str(body['machineType']))}"),
        "status": "PROVISIONING",
        "canIpForward": bool(body.get("canIpForward")),
        "cpuPlatform": "Imitated",
        "metadata": metadata(items),
        "labelFingerprint": fingerprint(labels),
        "networkInterfaces": [_interface(project, zone, asked) for asked in body["networkInterfaces"]],
        "disks": [_disk(call, name, index, asked) for index, asked in enumerate(body["disks"])],
        "serviceAccounts": [account(project, asked) for asked in body.get("serviceAccounts") or []],
        "scheduling": scheduling(body.get("scheduling") or {}),
        "startRestricted": False,
        "deletionProtection": bool(body.get("deletionProtection")),
        "selfLink": link(f"projects/{project}/zones/{zone}/instances/{name}"),
    }
    tags = list((body.get("tags") or {}).get("items") or [])
    shown["tags"] = {"fingerprint": fingerprint(tags), **({"items": tags} if tags else {})}
    optional = {"labels": labels, "description": body.get("description")}
    shown.update({key: value for key, value in optional.items() if value})
    return shown


def metadata(items: list[Mapping[str, Any]]) -> Document:
    """The metadata document with its fingerprint; without items there is no `items` key."""
    kept = [{"key": item["key"], "value": item.get("value", "")} for item in items]
    shown: Document = {"kind": "compute#metadata", "fingerprint": fingerprint(kept)}
    return {**shown, "items": kept} if kept else shown


def attributes(shown: Mapping[str, Any]) -> dict[str, str]:
    """An instance's metadata as a plain map."""
    return {item["key"]: item["value"] for item in shown["metadata"].get("items", [])}


def termination(shown: Mapping[str, Any], running_since: float) -> float | None:
    """When the service itself ends the instance: an absolute time, or a run time counted from each start."""
    scheduling = shown.get("scheduling", {})
    if scheduling.get("terminationTime"):
        return parse_timestamp(scheduling["terminationTime"])
    run = scheduling.get("maxRunDuration")
    return running_since + float(run.get("seconds", 0)) if run else None


def check_scheduling(call: Call, asked: Mapping[str, Any]) -> None:
    """Raise where limits, action and Spot contradict each other (google-cloud.md 3.2)."""
    action, end, run = (asked.get(key) for key in ("instanceTerminationAction", "terminationTime", "maxRunDuration"))
    spot = is_spot({"scheduling": asked})
    if end and run:
        raise invalid("resource.scheduling", "", "terminationTime and maxRunDuration exclude each other.")
    if (end or run) and not spot and not action:
        raise refuse("compute.required", field="resource.scheduling.instanceTerminationAction")
    if action and not (end or run or spot):
        problem = "It may be set only with Spot VMs or a time limit."
        raise invalid("resource.scheduling.instanceTerminationAction", str(action), problem)
    if end:
        try:
            at = parse_timestamp(str(end))
        except ValueError as problem:
            raise invalid("resource.scheduling.terminationTime", str(end), "Not an RFC 3339 time.") from problem
        if at <= call.now:
            raise invalid("resource.scheduling.terminationTime", str(end), "The time has passed.")
    if spot:
        _check_spot(asked)


def _check_spot(asked: Mapping[str, Any]) -> None:
    if asked.get("automaticRestart") is True:
        raise invalid("resource.scheduling.automaticRestart", "true", "Must be false for Spot VMs.")
    if asked.get("onHostMaintenance", "TERMINATE") != "TERMINATE":
        field = "resource.scheduling.onHostMaintenance"
        raise invalid(field, str(asked["onHostMaintenance"]), "Must be TERMINATE for Spot VMs.")


def scheduling(asked: Mapping[str, Any]) -> Document:
    """The scheduling as the API shows it."""
    spot = is_spot({"scheduling": asked})
    shown: Document = {
        "onHostMaintenance": "TERMINATE" if spot else asked.get("onHostMaintenance", "MIGRATE"),
        "automaticRestart": False if spot else asked.get("automaticRestart", True),
        "preemptible": spot,
        "provisioningModel": "SPOT" if spot else asked.get("provisioningModel", "STANDARD"),
    }
    limits = ("instanceTerminationAction", "terminationTime", "maxRunDuration")
    shown.update({key: asked[key] for key in limits if asked.get(key)})
    if spot:
        shown.setdefault("instanceTerminationAction", "STOP")
    return shown


def _interface(project: str, zone: str, asked: Mapping[str, Any]) -> Document:
    network = project_path(str(asked.get("network") or "global/networks/default"), project)
    region = region_of(zone)
    subnetwork = project_path(str(asked.get("subnetwork") or f"regions/{region}/subnetworks/default"), project)
    access = [
        {"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": config.get("name", "External NAT")}
        for config in asked.get("accessConfigs") or []
    ]
    shown: Document = {
        "kind": "compute#networkInterface",
        "name": "nic0",
        "network": link(network),
        "subnetwork": link(subnetwork),
        "stackType": "IPV4_ONLY",
    }
    return {**shown, "accessConfigs": access} if access else shown


def _disk(call: Call, name: str, index: int, asked: Mapping[str, Any]) -> Document:
    project, zone = call.params["project"], call.params["zone"]
    params = asked.get("initializeParams") or {}
    disk_name = str(params.get("diskName") or (name if index == 0 else f"{name}-{index}"))
    source = str(asked.get("source") or f"projects/{project}/zones/{zone}/disks/{disk_name}")
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "source": link(project_path(source, project)),
        "deviceName": str(asked.get("deviceName") or f"persistent-disk-{index}"),
        "index": index,
        "boot": bool(asked.get("boot", index == 0)),
        "autoDelete": bool(asked.get("autoDelete")),
        "interface": "SCSI",
        "diskSizeGb": str(params.get("diskSizeGb") or asked.get("diskSizeGb") or BOOT_DISK_GB),
        "licenses": [link(f"projects/{DEFAULT_IMAGE[0]}/global/licenses/{IMAGES[DEFAULT_IMAGE].split('-v')[0]}")],
        "architecture": "X86_64",
    }


def account(project: str, asked: Mapping[str, Any]) -> Document:
    """A service account with its scopes; `default` is the project's own."""
    email = asked.get("email") or "default"
    return {
        "email": default_account(project) if email == "default" else email,
        "scopes": list(asked.get("scopes") or []),
    }
