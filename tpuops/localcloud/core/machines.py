"""The machines behind nodes and instances, as documents: address, boots, host keys, guest attributes.

Emits the events that real machines follow. It never learns what a machine does, except from notices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuops.localcloud.core.events import Booted, Control, DeleteMachine, MachineSpec, StartMachine, StopMachine
from tpuops.localcloud.core.scene import Scene
from tpuops.localcloud.core.world import Document

ADDRESSES_A_NET = 253
MOST_MACHINES = 256 * ADDRESSES_A_NET


@dataclass(frozen=True, slots=True)
class Identity:
    """What does not change about a machine: see `MachineSpec` for the fields."""

    id: str
    name: str
    kind: str
    project: str
    zone: str
    hostname: str
    accelerator: str = ""
    worker: int = 0
    devices: int = 0


def take_address(scene: Scene) -> str:
    """A free loopback address of this cloud's own net; addresses are used again once their machine is deleted."""
    taken = {machine["address"] for _, machine in scene.world.items("machine")}
    net, _, first = scene.subnet.rpartition(".")
    for number in range(MOST_MACHINES):
        further, last = divmod(number, ADDRESSES_A_NET)
        address = f"{net}.{(int(first) + further) % 256}.{last + 2}"
        if address not in taken:
            return address
    raise RuntimeError(f"more than {MOST_MACHINES} machines")


def define(scene: Scene, identity: Identity, account: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """Note a new machine, not yet started, under an address of its own, which is returned.

    `account` has `email` and `scopes`.
    """
    address = take_address(scene)
    document: Document = {
        **{name: getattr(identity, name) for name in Identity.__slots__},
        "address": address,
        "account": account["email"],
        "scopes": list(account["scopes"]),
        "metadata": dict(metadata),
        "boot": 0,
        "running": False,
        "guest": {},
    }
    stored = scene.world.get("compute.project", identity.project)
    if stored:
        document["project_attributes"] = {item["key"]: item["value"] for item in stored["items"]}
    scene.world.put("machine", identity.id, document)
    return address


def spec(machine: Document) -> MachineSpec:
    """The machine as its starter needs it."""
    return MachineSpec(
        id=machine["id"],
        name=machine["name"],
        kind=machine["kind"],
        project=machine["project"],
        zone=machine["zone"],
        address=machine["address"],
        hostname=machine["hostname"],
        accelerator=machine["accelerator"],
        worker=machine["worker"],
        metadata=effective(machine),
        boot=machine["boot"],
        service_account=machine["account"],
        scopes=tuple(machine["scopes"]),
        devices=machine["devices"],
    )


def effective(machine: Document) -> dict[str, str]:
    """The machine's attributes, with the project's OS Login and login keys where it does not keep them out."""
    own = dict(machine["metadata"])
    if machine.get("project_attributes", {}).get("enable-oslogin"):
        own.setdefault("enable-oslogin", machine["project_attributes"]["enable-oslogin"])
    project = machine.get("project_attributes", {}).get("ssh-keys", "")
    kept_out = own.get("block-project-ssh-keys", "").upper() == "TRUE" or "sshKeys" in own  # google-cloud.md 3.4.2
    if project and not kept_out:
        own["ssh-keys"] = "\n".join(keys for keys in (own.get("ssh-keys", ""), project) if keys)
    return own


def change_project(scene: Scene, project: str, attributes: Mapping[str, str]) -> None:
    """Give every machine of the project its new attributes."""
    for machine_id, machine in scene.world.items("machine"):
        if machine["project"] == project:
            machine["project_attributes"] = dict(attributes)
            change_metadata(scene, [machine_id], machine["metadata"])


def boot(scene: Scene, ids: Sequence[str]) -> None:
    """Start the machines, each with one more boot; host keys show up once they report."""
    for machine_id in ids:
        machine = scene.world.get("machine", machine_id)
        if machine is None:
            continue
        machine.update(boot=machine["boot"] + 1, running=True, booted=False, notice={})
        scene.world.put("machine", machine_id, machine)
        scene.events.append(StartMachine(spec(machine)))


def halt(scene: Scene, ids: Sequence[str]) -> None:
    """Kill what runs on the machines; disks stay."""
    for machine_id in ids:
        machine = scene.world.get("machine", machine_id)
        if machine is None or not machine["running"]:
            continue
        machine.update(running=False, booted=False)
        scene.world.put("machine", machine_id, machine)
        scene.events.append(StopMachine(machine_id))


def remove(scene: Scene, ids: Sequence[str]) -> None:
    """Kill and forget the machines, disks too."""
    for machine_id in ids:
        if scene.world.get("machine", machine_id) is not None:
            scene.world.drop("machine", machine_id)
            scene.events.append(DeleteMachine(machine_id))


def change_metadata(scene: Scene, ids: Sequence[str], metadata: Mapping[str, str]) -> None:
    """Give the machines new attributes; running ones are told, for their login keys."""
    for machine_id in ids:
        machine = scene.world.get("machine", machine_id)
        if machine is None:
            continue
        machine["metadata"] = dict(metadata)
        scene.world.put("machine", machine_id, machine)
        if machine["running"]:
            scene.events.append(Control(machine_id, {"order": "metadata", "metadata": effective(machine)}))


def notify(scene: Scene, ids: Sequence[str], notice: Mapping[str, Any]) -> None:
    """Have the machines' metadata say that they are about to be taken, or maintained; empty takes it back."""
    for machine_id in ids:
        machine = scene.world.get("machine", machine_id)
        if machine is not None:
            scene.world.put("machine", machine_id, {**machine, "notice": dict(notice)})


def booted(scene: Scene, notice: Booted) -> Document | None:
    """Publish what a machine said at boot as guest attributes; None for a machine that is gone or was stopped."""
    machine = scene.world.get("machine", notice.id)
    if machine is None or not machine["running"]:
        return None
    guest = dict(machine["guest"])
    for line in notice.host_keys:
        key_type, _, key = line.partition(" ")
        guest[f"hostkeys/{key_type}"] = key
    guest["hostname"] = machine["hostname"]
    machine.update(guest=guest, booted=True)
    return scene.world.put("machine", notice.id, machine)


def guest_items(machine: Document, query_path: str) -> list[dict[str, str]]:
    """Guest attributes at or below a path such as `hostkeys/`; everything for an empty one."""
    wanted = query_path.strip("/")
    items = []
    for path, value in sorted(machine["guest"].items()):
        if wanted and path != wanted and not path.startswith(wanted + "/"):
            continue
        namespace, _, key = path.rpartition("/")
        items.append(
            {"namespace": namespace, "key": key, "value": value} if namespace else {"key": key, "value": value}
        )
    return items
