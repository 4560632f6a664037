"""What an environment file asks for, as resources with names. Pure: the same file, owner and key give the same values.

Names are deterministic, so that any machine finds the same resources without a record. Google's words for images and
metadata keys (google-cloud.md 3.4) end here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tpuops import switch
from tpuops.environment.model import Environment
from tpuops.facts import catalogue, names
from tpuops.facts.entries import KEYS, OS_LOGIN, Entry, public_of
from tpuops.resources import (
    CLOSED_NETWORK,
    METADATA_BUCKET,
    BucketSpec,
    Desired,
    Disk,
    Link,
    NodeSpec,
    Owned,
    Place,
    VmSpec,
)

VM_IMAGE = "projects/debian-cloud/global/images/family/debian-12"
TERMINATION_MARGIN = timedelta(hours=1)
KEY_MARGIN = timedelta(days=1)
"""How much longer than the longest run our key opens the machines: time to look at what is left."""


def desired(environment: Environment, *, owner: str, public_key: str, now: datetime) -> Desired:
    """The resources of an environment.

    Args:
        environment: as loaded.
        owner: the owner's slug (`environment.owner_of`).
        public_key: one OpenSSH line, `type base64` with or without a comment.
        now: UTC; decides only the end that Compute Engine enforces on a VM created now.
    """
    owned = Owned(environment.slug, owner)
    bucket = _bucket(environment, owned)
    wanted = Desired(
        owned=owned,
        node=_node(environment, owned, _metadata(environment, public_key, now), bucket.name),
        vm=_vm(environment, owned, public_key, now),
        bucket=bucket,
        spare_vm=_vm_at(environment, owned) if environment.vm is None else None,
    )
    return _watched(wanted, environment, now)


def _watched(wanted: Desired, environment: Environment, now: datetime) -> Desired:
    """The same with a reaper on each machine, which ends them all where nobody supervises them any more."""
    node, vm, agreed = wanted.node, wanted.vm, switch.terms(environment.limits.abandoned)
    end = _end(now + environment.limits.runtime + TERMINATION_MARGIN)
    watched = switch.Watched(wanted.owned, wanted.bucket.name, (node.place, node.name), wanted.vm_at, end)
    closed = _closed(environment)
    node = replace(node, metadata={**node.metadata, **closed, **switch.orders("node", watched, agreed)})
    if vm is not None:
        vm = replace(vm, metadata={**vm.metadata, **closed, **switch.orders("vm", watched, agreed)})
    return replace(wanted, node=node, vm=vm)


def _closed(environment: Environment) -> dict[str, str]:
    """What gives a machine of the embedded cloud a network that holds nothing, where the file asks for it."""
    network = environment.rehearsal.network if environment.cloud == "local" else None
    return {CLOSED_NETWORK: network} if network else {}


def _node(environment: Environment, owned: Owned, metadata: dict[str, str], bucket: str) -> NodeSpec:
    return NodeSpec(
        name=names.node_name(owned.environment, owned.owner),
        place=Place(environment.project, environment.zone),
        accelerator=environment.tpu.accelerator,
        runtime=environment.tpu.runtime,
        spot=environment.tpu.spot,
        labels={**environment.tpu.labels, **owned.labels},
        metadata={**metadata, METADATA_BUCKET: bucket},
        link=_link(environment),
        service_account=environment.tpu.service_account or "",
        disks=tuple(Disk(disk.name, disk.mode == "read-only") for disk in environment.tpu.disks),
        granted=environment.granted,
    )


def _vm(environment: Environment, owned: Owned, public_key: str, now: datetime) -> VmSpec | None:
    if environment.vm is None:
        return None
    place, name = _vm_at(environment, owned)
    return VmSpec(
        name=name,
        place=place,
        machine_type=environment.vm.machine_type,
        image=VM_IMAGE,
        disk_gb=environment.vm.disk_gb,
        labels={**environment.vm.labels, **owned.labels},
        metadata=_metadata(environment, public_key, now),
        link=_link(environment),
        service_account=environment.vm.service_account or "",
        terminate_at=_end(now + environment.limits.runtime + TERMINATION_MARGIN),
    )


def _vm_at(environment: Environment, owned: Owned) -> tuple[Place, str]:
    zone = catalogue.parent_zone(environment.zone)
    return Place(environment.project, zone), names.vm_name(owned.environment, owned.owner)


def _link(environment: Environment) -> Link:
    """TPU and VM stand in one network, so that they reach each other."""
    tpu = environment.tpu
    return Link(tpu.network, tpu.subnetwork or "", external=environment.ssh.reach == "external")


def _bucket(environment: Environment, owned: Owned) -> BucketSpec:
    """The home bucket in the zone's own region: the nearest, and free to read from there (google-cloud.md 4.9)."""
    return BucketSpec(
        name=environment.bucket.name or names.bucket_name(environment.project, owned.environment, owned.owner),
        project=environment.project,
        location=environment.region,
        labels=owned.labels,
    )


def _metadata(environment: Environment, public_key: str, now: datetime) -> dict[str, str]:
    """Who may log in, none of it from the project, and host keys published where we can check them."""
    common = {"enable-guest-attributes": "TRUE", "block-project-ssh-keys": "TRUE"}
    if environment.ssh.login == "os-login":
        return {OS_LOGIN: "TRUE", **common}
    ours = Entry(environment.ssh.user, public_of(public_key), key_end(environment, now))
    return {KEYS: ours.line, **common}


def key_end(environment: Environment, now: datetime) -> datetime:
    """Until when a key must open machines that a run begins on now."""
    return _end(now + environment.limits.runtime + KEY_MARGIN)


def _end(at: datetime) -> datetime:
    """The next full hour, so that looking twice within one asks for the same."""
    whole = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return whole if whole == at else whole + timedelta(hours=1)
