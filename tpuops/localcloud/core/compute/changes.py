"""Changes to one instance besides its life: scheduling, account, tags, type, protection, disks, reset, serial output.

What may be changed on a stopped instance only is data (states.py; facts: google-cloud.md 3.1.2, 3.2.2b).
"""

from __future__ import annotations

from tpuops.localcloud.core import machines
from tpuops.localcloud.core.compute import disks, operations, shape
from tpuops.localcloud.core.compute.catalogue import machine_types
from tpuops.localcloud.core.compute.instances import existing, path, ready_for
from tpuops.localcloud.core.compute.links import last, link
from tpuops.localcloud.core.compute.states import STOPPED_ONLY
from tpuops.localcloud.core.compute.transitions import DISK, KIND
from tpuops.localcloud.core.draw import fingerprint
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document


def set_scheduling(call: Call) -> Answer:
    """POST .../instances/I/setScheduling: a running instance's time limit cannot be renewed."""
    key, shown = _changeable(call)
    asked = call.body()
    shape.check_scheduling(call, asked)
    return _changed(call, key, {**shown, "scheduling": shape.scheduling(asked)}, "setScheduling")


def set_service_account(call: Call) -> Answer:
    """POST .../instances/I/setServiceAccount: account and scopes, from the next start on."""
    key, shown = _changeable(call)
    account = shape.account(call.params["project"], call.body())
    machine = call.world.get("machine", shown["id"])
    if machine is not None:
        changed = {**machine, "account": account["email"], "scopes": account["scopes"]}
        call.world.put("machine", shown["id"], changed)
        call.world.drop("metadata.token", shown["id"])
    return _changed(call, key, {**shown, "serviceAccounts": [account]}, "setServiceAccount")


def set_machine_type(call: Call) -> Answer:
    """POST .../instances/I/setMachineType."""
    key, shown = _changeable(call)
    name = last(str(call.body().get("machineType") or ""))
    project, zone = call.params["project"], call.params["zone"]
    if name not in machine_types():
        raise shape.invalid("resource.machineType", name, "Unknown machine type.")
    changed = {**shown, "machineType": link(f"projects/{project}/zones/{zone}/machineTypes/{name}")}
    return _changed(call, key, changed, "setMachineType")


def set_tags(call: Call) -> Answer:
    """POST .../instances/I/setTags with the current fingerprint."""
    key, shown = existing(call)
    body = call.body()
    if body.get("fingerprint") != shown["tags"]["fingerprint"]:
        raise refuse("compute.stale", what="Supplied")
    items = list(body.get("items") or [])
    tags = {"fingerprint": fingerprint(items), **({"items": items} if items else {})}
    return _changed(call, key, {**shown, "tags": tags}, "setTags")


def set_deletion_protection(call: Call) -> Answer:
    """POST .../instances/I/setDeletionProtection[?deletionProtection=false]."""
    key, shown = existing(call)
    wanted = call.query.get("deletionProtection", "true").lower() == "true"
    return _changed(call, key, {**shown, "deletionProtection": wanted}, "setDeletionProtection")


def reset(call: Call) -> Answer:
    """POST .../instances/I/reset: the machine loses power and boots again, on the same disk."""
    key, shown = ready_for(call, "reset")
    machines.halt(call.scene, [shown["id"]])
    machines.boot(call.scene, [shown["id"]])
    return operations.begin(call, "reset", key, shown["id"])


def serial(call: Call) -> Answer:
    """GET .../instances/I/serialPort: one line a boot; the console of a machine is not shown."""
    key, shown = existing(call)
    machine = call.world.get("machine", shown["id"])
    boots = machine["boot"] if machine else 0
    text = "".join(f"{shown['name']}: boot {number + 1}\n" for number in range(boots))
    start = int(call.query["start"]) if call.query.get("start", "").isdigit() else 0
    return {
        "kind": "compute#serialPortOutput",
        "contents": text[start:],
        "start": str(start),
        "next": str(len(text)),
        "selfLink": link(f"{path(key)}/serialPort"),
    }


def attach_disk(call: Call) -> Answer:
    """POST .../instances/I/attachDisk. Imitated: the disk shows up, but the machine sees none."""
    key, shown = existing(call)
    asked = call.body()
    disk = disks.existing(call, last(str(asked.get("source") or "")))
    if disk.get("users"):
        raise refuse("compute.in-use", name=last(disk["selfLink"]), user=last(disk["users"][0]))
    attached = {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": asked.get("mode") or "READ_WRITE",
        "source": disk["selfLink"],
        "deviceName": asked.get("deviceName") or disk["name"],
        "index": len(shown["disks"]),
        "boot": False,
        "autoDelete": bool(asked.get("autoDelete")),
        "interface": "SCSI",
        "diskSizeGb": disk["sizeGb"],
    }
    _use(call, disk, shown["selfLink"])
    return _changed(call, key, {**shown, "disks": [*shown["disks"], attached]}, "attachDisk")


def detach_disk(call: Call) -> Answer:
    """POST .../instances/I/detachDisk?deviceName=D."""
    key, shown = existing(call)
    device = call.query.get("deviceName", "")
    found = next((disk for disk in shown["disks"] if disk["deviceName"] == device), None)
    if found is None:
        raise shape.invalid("deviceName", device, "No attached disk found with device name.")
    if found["boot"] and shown["status"] != "TERMINATED":
        raise refuse("compute.not-ready", name=path(key))
    _use(call, disks.existing(call, last(found["source"])), "")
    kept = [disk for disk in shown["disks"] if disk is not found]
    return _changed(call, key, {**shown, "disks": kept}, "detachDisk")


def _changeable(call: Call) -> tuple[str, Document]:
    key, shown = existing(call)
    if call.method.rpartition(".")[2] in STOPPED_ONLY and shown["status"] != "TERMINATED":
        raise refuse("compute.running", name=path(key))
    return key, shown


def _changed(call: Call, key: str, shown: Document, verb: str) -> Document:
    call.world.put(KIND, key, shown)
    return operations.begin(call, verb, key, shown["id"])


def _use(call: Call, disk: Document, user: str) -> None:
    kept = {field: value for field, value in disk.items() if field != "users"}
    key = f"{call.params['project']}/{call.params['zone']}/{disk['name']}"
    call.world.put(DISK, key, {**kept, "users": [user]} if user else kept)
