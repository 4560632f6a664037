"""Instances: the methods that clients call. Each one checks, changes the status and admits an operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tpuops.localcloud.core import machines
from tpuops.localcloud.core.compute import catalogue, network, operations, quotas, shape
from tpuops.localcloud.core.compute.links import last, link
from tpuops.localcloud.core.compute.pages import by_scope, shown_page
from tpuops.localcloud.core.compute.states import INSTANCE_VERBS
from tpuops.localcloud.core.compute.transitions import DISK, KIND, in_status
from tpuops.localcloud.core.draw import fingerprint, timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document


def insert(call: Call) -> Answer:
    """POST .../instances."""
    zone_exists(call)
    body = call.body()
    shape.check(call, body)
    network.check_named(call, body["networkInterfaces"])
    key = f"{call.params['project']}/{call.params['zone']}/{body['name']}"
    if call.world.get(KIND, key) is not None:
        raise refuse("compute.exists", name=path(key))
    quotas.check(call, shape.document(call, body))
    shown = call.world.put(KIND, key, shape.document(call, body))
    for disk, asked in zip(shown["disks"], body["disks"], strict=True):
        _note_disk(call, shown, disk, asked)
    return operations.begin(call, "insert", key, shown["id"])


def get(call: Call) -> Answer:
    """GET .../instances/I."""
    return existing(call)[1]


def listing(call: Call) -> Answer:
    """GET .../instances."""
    zone_exists(call)
    zone = link(f"projects/{call.params['project']}/zones/{call.params['zone']}/instances")
    return {**shown_page(call, "compute#instanceList", _in_zone(call, call.params["zone"])), "selfLink": zone}


def aggregated_list(call: Call) -> Answer:
    """GET .../aggregated/instances: by zone; a zone without instances carries a warning (google-cloud.md 3.3.7)."""
    scopes = {f"zones/{zone}": _in_zone(call, zone) for zone in catalogue.zones()}
    return by_scope(call, "compute#instanceAggregatedList", "instances", scopes)


def delete(call: Call) -> Answer:
    """DELETE .../instances/I."""
    key, shown = existing(call)
    if shown["deletionProtection"]:
        raise refuse("compute.protected", name=path(key))
    before = shown["status"]
    for action in ("compute.insert", "compute.start", "compute.stop"):
        for timer in call.scene.cancel(action, key=key):
            operations.end(call.scene, timer)
    return _change(call, "delete", "STOPPING", before=before)


def stop(call: Call) -> Answer:
    """POST .../instances/I/stop."""
    _, shown = ready_for(call, "stop")
    return _change(call, "stop", "TERMINATED" if shown["status"] == "TERMINATED" else "STOPPING")


def start(call: Call) -> Answer:
    """POST .../instances/I/start."""
    _, shown = ready_for(call, "start")
    end = shape.termination(shown, call.now)
    if end is not None and end <= call.now:
        raise shape.invalid("resource.scheduling.terminationTime", timestamp(end), "The time has passed.")
    return _change(call, "start", "STAGING")


def set_metadata(call: Call) -> Answer:
    """POST .../instances/I/setMetadata with the current fingerprint."""
    key, shown = existing(call)
    body = call.body()
    if body.get("fingerprint") != shown["metadata"]["fingerprint"]:
        raise refuse("compute.stale", what="Supplied")
    shown["metadata"] = shape.metadata(list(body.get("items") or []))
    call.world.put(KIND, key, shown)
    machines.change_metadata(call.scene, [shown["id"]], shape.attributes(shown))
    return operations.begin(call, "setMetadata", key, shown["id"])


def set_labels(call: Call) -> Answer:
    """POST .../instances/I/setLabels with the current label fingerprint."""
    key, shown = existing(call)
    body = call.body()
    if body.get("labelFingerprint") != shown["labelFingerprint"]:
        raise refuse("compute.stale", what="Labels")
    labels = dict(body.get("labels") or {})
    shape.check_labels("labels", labels)
    shown.pop("labels", None)
    shown.update({"labels": labels} if labels else {}, labelFingerprint=fingerprint(labels))
    call.world.put(KIND, key, shown)
    return operations.begin(call, "setLabels", key, shown["id"])


def get_guest_attributes(call: Call) -> Answer:
    """GET .../instances/I/getGuestAttributes?queryPath=hostkeys/: only where enable-guest-attributes is TRUE."""
    key, shown = existing(call)
    query_path = call.query.get("queryPath") or f"{call.query.get('variableKey', '')}"
    machine = call.world.get("machine", shown["id"])
    enabled = shape.attributes(shown).get("enable-guest-attributes", "").upper() == "TRUE"
    items = machines.guest_items(machine, query_path) if machine and enabled else []
    items = [item for item in items if "namespace" in item]
    if not items:
        raise refuse("compute.no-guest", name=query_path)
    return {
        "kind": "compute#guestAttributes",
        "queryPath": query_path,
        "queryValue": {"items": items},
        "selfLink": link(f"{path(key)}/guestAttributes/{query_path}"),
    }


def zone_exists(call: Call) -> None:
    """Raise where the call's zone is not one of Compute's."""
    zone = call.params["zone"]
    if zone not in catalogue.zones():
        raise shape.invalid("zone", zone, "Unknown zone.")


def _change(call: Call, verb: str, status: str, **facts: Any) -> Answer:
    key, shown = existing(call)
    if not call.failure and verb != "start":
        machines.halt(call.scene, [shown["id"]])
    call.world.put(KIND, key, in_status(shown, status))
    return operations.begin(call, verb, key, shown["id"], **facts)


def ready_for(call: Call, verb: str) -> tuple[str, Document]:
    """The instance of the call with its key. Raises where it is in no status for the verb."""
    key, shown = existing(call)
    if shown["status"] not in INSTANCE_VERBS[verb]:
        raise refuse("compute.not-ready", name=path(key))
    return key, shown


def existing(call: Call) -> tuple[str, Document]:
    """The instance of the call with its key. Raises where there is none."""
    key = f"{call.params['project']}/{call.params['zone']}/{call.params['instance']}"
    shown = call.world.get(KIND, key)
    if shown is None:
        zone_exists(call)
        raise refuse("compute.absent", name=path(key))
    return key, shown


def _in_zone(call: Call, zone: str) -> Iterator[tuple[str, Document]]:
    return call.world.items(KIND, f"{call.params['project']}/{zone}/")


def path(key: str) -> str:
    """`projects/...` of an instance's key."""
    project, zone, name = key.split("/")
    return f"projects/{project}/zones/{zone}/instances/{name}"


def _note_disk(call: Call, shown: Document, disk: Document, asked: Document) -> None:
    project, zone = call.params["project"], call.params["zone"]
    name = last(disk["source"])
    params = asked.get("initializeParams") or {}
    document = {
        "kind": "compute#disk",
        "id": call.scene.draw.number(),
        "name": name,
        "zone": shown["zone"],
        "status": "READY",
        "sizeGb": disk["diskSizeGb"],
        "type": link(f"projects/{project}/zones/{zone}/diskTypes/{last(str(params.get('diskType') or 'pd-standard'))}"),
        "creationTimestamp": timestamp(call.now),
        "users": [shown["selfLink"]],
        "selfLink": disk["source"],
    }
    if call.world.get(DISK, f"{project}/{zone}/{name}") is None:
        call.world.put(DISK, f"{project}/{zone}/{name}", document)
