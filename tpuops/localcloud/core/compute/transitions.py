"""What becomes of an instance when an operation ends, its time is up, or Google takes it.

Called by the timer and by fault scripts; each function leaves instance, machine, disks and operation in agreement.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core import machines
from tpuops.localcloud.core.compute import operations, shape
from tpuops.localcloud.core.compute.links import last
from tpuops.localcloud.core.compute.states import INSTANCE_STEPS
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.steps import step
from tpuops.localcloud.core.world import Document

KIND = "compute.instance"
DISK = "compute.disk"


CHANGES = (
    "setLabels",
    "setMetadata",
    "setScheduling",
    "setServiceAccount",
    "setMachineType",
    "setTags",
    "setDeletionProtection",
    "reset",
    "attachDisk",
    "detachDisk",
)
"""Operations whose change is made at admission."""


def _target(scene: Scene, timer: Document) -> Document | None:
    """The very instance that the operation was about; one made later under its name is another."""
    shown, operation = scene.world.get(KIND, timer["key"]), scene.world.get(operations.KIND, timer["operation"])
    return shown if shown is not None and operation is not None and operation["targetId"] == shown["id"] else None


def inserted(scene: Scene, timer: Document) -> None:
    """The instance runs; its machine boots. Failed: it is gone again, disks too."""
    shown = _target(scene, timer)
    if shown is not None and timer["failure"]:
        _erase(scene, timer["key"], shown)
    elif shown is not None:
        address = machines.define(scene, _identity(timer["key"], shown), _account(shown), shape.attributes(shown))
        for interface in shown["networkInterfaces"]:
            interface["networkIP"] = address
            for config in interface.get("accessConfigs", []):
                config["natIP"] = address
        _run(scene, timer["key"], shown)
    operations.end(scene, timer)


def started(scene: Scene, timer: Document) -> None:
    """The instance runs again, on the same disk."""
    shown = _target(scene, timer)
    if shown is not None and timer["failure"]:
        scene.world.put(KIND, timer["key"], in_status(shown, "TERMINATED"))
    elif shown is not None and shown["status"] == "STAGING":  # its time may have come meanwhile
        _run(scene, timer["key"], shown)
    operations.end(scene, timer)


def stopped(scene: Scene, timer: Document) -> None:
    """The instance is stopped, which the API calls TERMINATED (google-cloud.md 3.1.5)."""
    shown = _target(scene, timer)
    if shown is not None and shown["status"] == "STOPPING":  # it may have been stopped already, and started since
        _rest(scene, timer["key"], shown, "RUNNING" if timer["failure"] else "TERMINATED")
    operations.end(scene, timer)


def deleted(scene: Scene, timer: Document) -> None:
    """The instance is gone, and the disks that go with it."""
    shown = _target(scene, timer)
    if shown is not None and timer["failure"] and shown["status"] == "STOPPING":
        scene.world.put(KIND, timer["key"], in_status(shown, timer["before"]))
    elif shown is not None and not timer["failure"]:
        _erase(scene, timer["key"], shown)
    operations.end(scene, timer)


def expired(scene: Scene, timer: Document) -> None:
    """The time limit set at creation has come: the service itself stops or deletes (google-cloud.md 3.2)."""
    shown = scene.world.get(KIND, timer["key"])
    if shown is None or shown["id"] != timer["id"]:
        return
    _take(scene, timer["key"], shown)


def preempt(scene: Scene, key: str) -> None:
    """Google takes a Spot instance: it stops, or is deleted where its scheduling says so."""
    shown = scene.world.get(KIND, key)
    if shown is not None:
        _take(scene, key, shown)


def changed(scene: Scene, timer: Document) -> None:
    """The change was made at admission already; the operation only ends."""
    operations.end(scene, timer)


def in_status(shown: Document, status: str) -> Document:
    """The instance in its next status, as the table allows."""
    return {**shown, "status": step(INSTANCE_STEPS, shown["status"], status)}


def _take(scene: Scene, key: str, shown: Document) -> None:
    if shown["scheduling"].get("instanceTerminationAction") == "DELETE":
        _erase(scene, key, shown)
    else:
        _rest(scene, key, shown, "TERMINATED")


def _run(scene: Scene, key: str, shown: Document) -> None:
    shown.update(in_status(shown, "RUNNING"), lastStartTimestamp=timestamp(scene.now))
    end = shape.termination(shown, scene.now)
    if end is not None:
        scene.cancel("compute.expire", key=key)
        scene.later(end - scene.now, "compute.expire", key=key, id=shown["id"])
        shown["resourceStatus"] = {"scheduling": {"terminationTimestamp": timestamp(end)}}
    scene.world.put(KIND, key, shown)
    machines.boot(scene, [shown["id"]])


def _rest(scene: Scene, key: str, shown: Document, status: str) -> None:
    shown.update(in_status(shown, status))
    if status == "TERMINATED":
        shown["lastStopTimestamp"] = timestamp(scene.now)
        shown.pop("resourceStatus", None)
        for interface in shown["networkInterfaces"]:
            for config in interface.get("accessConfigs", []):
                config.pop("natIP", None)
        machines.halt(scene, [shown["id"]])
        if not shown["scheduling"].get("terminationTime"):
            scene.cancel("compute.expire", key=key)
    scene.world.put(KIND, key, shown)


def _erase(scene: Scene, key: str, shown: Document) -> None:
    scene.cancel("compute.expire", key=key)
    machines.remove(scene, [shown["id"]])
    scene.world.drop(KIND, key)
    project, zone, _ = key.split("/")
    for disk in shown["disks"]:
        name = f"{project}/{zone}/{last(disk['source'])}"
        kept = scene.world.get(DISK, name)
        if disk["autoDelete"]:
            scene.world.drop(DISK, name)
        elif kept is not None:
            scene.world.put(DISK, name, {field: value for field, value in kept.items() if field != "users"})


def _identity(key: str, shown: Mapping[str, str]) -> machines.Identity:
    project, zone, name = key.split("/")
    hostname = f"{name}.{zone}.c.{project}.internal"
    return machines.Identity(id=shown["id"], name=name, kind="vm", project=project, zone=zone, hostname=hostname)


def _account(shown: Document) -> Mapping[str, object]:
    """The machine's own identity; an instance without a service account has none."""
    accounts = shown["serviceAccounts"]
    return accounts[0] if accounts else {"email": "", "scopes": []}


ACTIONS: Mapping[str, Action] = {
    "compute.insert": inserted,
    "compute.start": started,
    "compute.stop": stopped,
    "compute.delete": deleted,
    "compute.expire": expired,
    "compute.end": changed,
    **{f"compute.{verb}": changed for verb in CHANGES},
}
