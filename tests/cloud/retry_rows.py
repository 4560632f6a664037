"""The rows of the retry table: every method that the product calls, and why asking it again does no harm."""

from __future__ import annotations

from typing import Any

from tests.cloud.retry_cell import (
    LABELS,
    METADATA,
    Act,
    Make,
    Row,
    Why,
    big,
    bucket,
    download,
    grant,
    log_in,
    log_in_longer,
    login,
    network,
    node,
    node_operation,
    nothing,
    read_whole,
    secret,
    small,
    stopped_node,
    vm,
    vm_operation,
)


def read(method: str, act: Act, make: Make = nothing, **more: Any) -> Row:
    """A row of a read."""
    return Row(method, Why.NATURE, act, make, **more)


READS = {
    "node": read("tpu.nodes.get", lambda at, _: at.cloud.node(at.place, "n"), node, gone_is_fine=True),
    "nodes": read("tpu.nodes.list", lambda at, _: at.cloud.nodes_anywhere(at.name), node, gone_is_fine=True),
    "types": read("tpu.acceleratorTypes.list", lambda at, _: at.cloud.accelerator_types(at.place), gone_is_fine=True),
    "runtimes": read("tpu.runtimeVersions.list", lambda at, _: at.cloud.runtime_versions(at.place), gone_is_fine=True),
    "keys": read(
        "tpu.nodes.getGuestAttributes", lambda at, _: at.cloud.host_keys(at.place, "n", 0), node, gone_is_fine=True
    ),
    "queue": read("tpu.queuedResources.list", lambda at, _: at.cloud.around().holdings(at.name)),
    "vm": read("compute.instances.get", lambda at, _: at.cloud.vm(at.place, "v"), vm, gone_is_fine=True),
    "vms": read(
        "compute.instances.aggregatedList", lambda at, _: at.cloud.vms_anywhere(at.name, LABELS), vm, gone_is_fine=True
    ),
    "vm-keys": read(
        "compute.instances.getGuestAttributes",
        lambda at, _: at.cloud.vm_host_keys(at.place, "v"),
        vm,
        gone_is_fine=True,
    ),
    "number": read("compute.projects.get", lambda at, _: at.cloud.project_number(at.name)),
    "metadata": read("compute.projects.get", lambda at, _: at.cloud.project_metadata(at.name), gone_is_fine=True),
    "region": read("compute.regions.get", lambda at, _: at.cloud.around().region_limits(at.place)),
    "cpus": read(
        "compute.machineTypes.get", lambda at, _: at.cloud.around().vcpus(at.place, "e2-small"), gone_is_fine=True
    ),
    "network": read(
        "compute.networks.get", lambda at, _: at.cloud.around().network(at.name, "default"), gone_is_fine=True
    ),
    "subnetwork": read(
        "compute.subnetworks.get",
        lambda at, _: at.cloud.around().subnetwork(at.name, "us-central1", "default"),
        gone_is_fine=True,
    ),
    "rules": read("compute.firewalls.list", lambda at, _: at.cloud.around().rules(at.name)),
    "nats": read("compute.routers.list", lambda at, _: at.cloud.around().nats(at.name, "us-central1")),
    "quotas": read("cloudquotas.quotaInfos.list", lambda at, _: at.cloud.around().tpu_limits(at.place)),
    "account": read(
        "iam.serviceAccounts.get", lambda at, _: at.cloud.around().has_account(at.name, "a@b"), gone_is_fine=True
    ),
    "roles": read(
        "resourcemanager.projects.getIamPolicy", lambda at, _: at.cloud.around().project_roles(at.name, "user:a")
    ),
    "bucket": read("storage.buckets.get", lambda at, _: at.cloud.bucket(at.name), bucket, gone_is_fine=True),
    "policy": read(
        "storage.buckets.getIamPolicy", lambda at, _: at.cloud.around().bucket_roles(at.name, "user:a"), bucket
    ),
    "held": read(
        "storage.buckets.testIamPermissions",
        lambda at, _: at.cloud.around().bucket_permissions(at.name, ["storage.objects.get"]),
        bucket,
    ),
    "clock": Row("storage.buckets.get", Why.ANY, lambda at, _: at.cloud.around().server_time(at.name), bucket),
    "list": read("storage.objects.list", lambda at, _: at.cloud.store(at.name).list(""), small),
    "read": read("storage.objects.get", read_whole, big, requests=2, streams=True, gone_is_fine=True),
    "download": read("storage.objects.get", download, big, streams=True),
    "secret": read(
        "secretmanager.versions.access",
        lambda at, _: at.cloud.vault().secret(f"projects/{at.name}/secrets/s/versions/latest"),
        secret,
    ),
    "profile": read(
        "oslogin.users.getLoginProfile",
        lambda at, key: at.cloud.logins().login_name(key),
        login,
        unnamed=True,
        alone=True,
    ),
    "wait-tpu": read(
        "tpu.operations.get", lambda at, started: at.cloud.wait(started, 60), node_operation, gone_is_fine=True
    ),
    "wait-vm": read(
        "compute.zoneOperations.wait", lambda at, started: at.cloud.wait(started, 60), vm_operation, gone_is_fine=True
    ),
}
"""Reads, waiting among them. A 404 of what was looked for by name is the answer that it is not there; where an
operation is forgotten, its resource is read."""

LABELLED = {**LABELS, "more": "x"}
CHANGES = {
    "create-node": Row("tpu.nodes.create", Why.LOOKED, lambda at, _: at.cloud.create_node(at.node), nothing),
    "delete-node": Row(
        "tpu.nodes.delete", Why.LOOKED, lambda at, _: at.cloud.delete_node(at.place, "n"), node, gone_is_fine=True
    ),
    "stop-node": Row("tpu.nodes.stop", Why.LOOKED, lambda at, _: at.cloud.stop_node(at.place, "n"), node),
    "start-node": Row("tpu.nodes.start", Why.LOOKED, lambda at, _: at.cloud.start_node(at.place, "n"), stopped_node),
    "set-node": Row(
        "tpu.nodes.patch",
        Why.SEEN_LATE,
        lambda at, _: at.cloud.set_node_metadata(at.place, "n", {**METADATA, "a": "b"}),
        node,
    ),
    "label-node": Row(
        "tpu.nodes.patch", Why.SEEN_LATE, lambda at, _: at.cloud.set_node_labels(at.place, "n", LABELLED), node
    ),
    "create-vm": Row("compute.instances.insert", Why.LOOKED, lambda at, _: at.cloud.create_vm(at.vm), nothing),
    "delete-vm": Row(
        "compute.instances.delete", Why.LOOKED, lambda at, _: at.cloud.delete_vm(at.place, "v"), vm, gone_is_fine=True
    ),
    "set-vm": Row(
        "compute.instances.setMetadata", Why.LOOKED, lambda at, found: at.cloud.set_vm_metadata(found, {"a": "b"}), vm
    ),
    "label-vm": Row(
        "compute.instances.setLabels", Why.LOOKED, lambda at, found: at.cloud.set_vm_labels(found, LABELLED), vm
    ),
    "make-bucket": Row(
        "storage.buckets.insert", Why.CONDITION, lambda at, _: at.cloud.create_bucket(at.bucket), nothing, unnamed=True
    ),
    "lock": Row(
        "storage.objects.insert",
        Why.CONDITION,
        lambda at, _: at.cloud.store(at.name).write("o", b"mine", if_generation=0),
        bucket,
    ),
    "renew": Row(
        "storage.objects.insert",
        Why.CONDITION,
        lambda at, was: at.cloud.store(at.name).write("o", b"mine", if_generation=was.generation),
        small,
    ),
    # What the product writes without a condition (records of a run, evidence, what was told) has one writer, and is the
    # same a second time. The public table leaves such writes alone; here a record would be lost.
    "record": Row(
        "storage.objects.insert",
        Why.NATURE,
        lambda at, _: at.cloud.store(at.name).write("o", b"mine", if_generation=None),
        bucket,
    ),
    "release": Row(
        "storage.objects.delete",
        Why.CONDITION,
        lambda at, was: at.cloud.store(at.name).delete("o", if_generation=was.generation),
        small,
        gone_is_fine=True,
    ),
    "grant": Row("storage.buckets.setIamPolicy", Why.LOOKED, grant, bucket),
    "account": Row(
        "iam.serviceAccounts.create",
        Why.CONDITION,
        lambda at, _: at.cloud.around().make_account(at.name, "robots", "a robot"),
        nothing,
    ),
    "rule": Row(
        "compute.firewalls.insert",
        Why.REQUEST,
        lambda at, _: at.cloud.around().open_port(at.name, "default", "r", 22, ["10.0.0.0/8"]),
        nothing,
    ),
    "nat": Row(
        "compute.routers.insert",
        Why.REQUEST,
        lambda at, found: at.cloud.around().make_nat(at.name, found, "r"),
        network,
    ),
    "private": Row(
        "compute.subnetworks.setPrivateIpGoogleAccess",
        Why.REQUEST,
        lambda at, found: at.cloud.around().give_private_access(at.name, found),
        network,
    ),
    "know-key": Row("oslogin.users.importSshPublicKey", Why.NATURE, log_in, nothing, unnamed=True),
    "keep-key": Row("oslogin.sshPublicKeys.patch", Why.NATURE, log_in_longer, login, unnamed=True),
    "drop-key": Row(
        "oslogin.sshPublicKeys.delete",
        Why.CONDITION,
        lambda at, key: at.cloud.logins().forget_login(key),
        login,
        unnamed=True,
        gone_is_fine=True,
    ),
}

for _method in ("stop", "setServiceAccount", "start"):
    CHANGES[f"rescope-{_method}"] = Row(
        f"compute.instances.{_method}",
        Why.REQUEST,
        lambda at, _: at.cloud.around().rescope_vm(
            at.place, "v", "", ["https://www.googleapis.com/auth/cloud-platform"]
        ),
        vm,
    )

ROWS = {f"read-{name}": row for name, row in READS.items()} | CHANGES
