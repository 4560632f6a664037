"""Google's Compute Engine client calls every method that is served, each in a place where it has something to do."""

from __future__ import annotations

import re
import urllib.request
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1

from tests.cloud_fixture import LocalCloud

PROJECT = {"project": "local-tests"}
ZONE = {**PROJECT, "zone": "us-central1-a"}
REGION = {**PROJECT, "region": "us-central1"}
VM = {**ZONE, "instance": "vm1"}
BODY = {
    "name": "vm1",
    "machine_type": "zones/us-central1-a/machineTypes/e2-small",
    "disks": [{"boot": True, "auto_delete": True, "initialize_params": {"disk_size_gb": 10}}],
    "network_interfaces": [{"network": "global/networks/default", "access_configs": [{"name": "x"}]}],
    "metadata": {"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]},
    "service_accounts": [{"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
}
READS: tuple[tuple[str, dict[str, str]], ...] = (
    ("projects.get", PROJECT),
    ("zones.list", PROJECT),
    ("zones.get", ZONE),
    ("regions.list", PROJECT),
    ("regions.get", REGION),
    ("machine_types.list", ZONE),
    ("machine_types.get", {**ZONE, "machine_type": "e2-small"}),
    ("machine_types.aggregated_list", PROJECT),
    ("image_family_views.get", {"project": "debian-cloud", "zone": "us-central1-a", "family": "debian-12"}),
    ("images.list", {"project": "debian-cloud"}),
    ("images.get_from_family", {"project": "debian-cloud", "family": "debian-12"}),
    ("networks.list", PROJECT),
    ("networks.get", {**PROJECT, "network": "default"}),
    ("subnetworks.list", REGION),
    ("subnetworks.get", {**REGION, "subnetwork": "default"}),
    ("subnetworks.aggregated_list", PROJECT),
    ("disk_types.list", ZONE),
    ("disk_types.get", {**ZONE, "disk_type": "pd-ssd"}),
    ("addresses.list", REGION),
    ("addresses.aggregated_list", PROJECT),
    ("global_addresses.list", PROJECT),
    ("instances.list", ZONE),
    ("instances.aggregated_list", PROJECT),
    ("instances.get_serial_port_output", VM),
    ("instances.get_guest_attributes", {**VM, "query_path": "hostkeys/"}),
    ("disks.list", ZONE),
    ("disks.aggregated_list", PROJECT),
    ("firewalls.list", PROJECT),
    ("routers.list", REGION),
    ("zone_operations.list", ZONE),
    ("global_operations.list", PROJECT),
    ("global_operations.aggregated_list", PROJECT),
)
WITHOUT_WAIT = {"zone": "zone_operations", "region": "region_operations", "": "global_operations"}


class Compute:
    """The clients of Compute Engine, which wait for what they have begun."""

    def __init__(self, url: str) -> None:
        self._options = {"credentials": AnonymousCredentials(), "client_options": {"api_endpoint": url}}

    def __call__(self, method: str, **request: Any) -> Any:
        """The reply to `service.method`; of a change, the operation when it is done. An error is raised."""
        service, name = method.split(".")
        kind = getattr(compute_v1, re.sub("(?:^|_)(.)", lambda found: found[1].upper(), service) + "Client")
        client = kind(**self._options)
        reply = getattr(client, f"{name}_unary", None) or getattr(client, name)
        answer = reply(request=request, timeout=20, retry=None)
        if hasattr(answer, "pages"):
            return list(answer)
        return self._wait(request, answer) if hasattr(client, f"{name}_unary") else answer

    def _wait(self, request: dict[str, Any], begun: Any) -> Any:
        place = {key: request[key] for key in ("project", "zone", "region") if key in request}
        service = WITHOUT_WAIT["zone" if "zone" in place else "region" if "region" in place else ""]
        self(f"{service}.get", operation=begun.name, **place)
        ended = self(f"{service}.wait", operation=begun.name, **place)
        assert (ended.status.name, list(ended.error.errors)) == ("DONE", []), ended
        return ended


def publish(cloud: LocalCloud) -> None:
    """Write a host key into every machine's guest attributes, as the agent on it does: with a plain PUT."""
    for machine in cloud.status()["machines"]:
        path = f"/m/{machine['id']}/computeMetadata/v1/instance/guest-attributes/hostkeys/ssh-ed25519"
        asked = urllib.request.Request(cloud.url + path, b"AAAA", {"Metadata-Flavor": "Google"}, method="PUT")
        urllib.request.urlopen(asked, timeout=20).close()


def call_all(cloud: LocalCloud) -> None:
    """Call them."""
    compute = Compute(cloud.url)
    compute("instances.insert", **ZONE, instance_resource=BODY)
    _surroundings(compute)
    _running(compute)
    publish(cloud)
    for method, request in READS:
        compute(method, **request)
    image = compute("images.get_from_family", project="debian-cloud", family="debian-12")
    compute("images.get", project="debian-cloud", image=image.name)
    _stopped(compute)


def _surroundings(compute: Compute) -> None:
    rule = {"name": "f1", "allowed": [{"I_p_protocol": "tcp", "ports": ["22"]}], "source_ranges": ["10.0.0.0/8"]}
    compute("firewalls.insert", **PROJECT, firewall_resource=rule)
    compute("firewalls.patch", **PROJECT, firewall="f1", firewall_resource={"priority": 7})
    assert compute("firewalls.get", **PROJECT, firewall="f1").priority == 7
    compute("firewalls.delete", **PROJECT, firewall="f1")
    nat = {"name": "n1", "nat_ip_allocate_option": "AUTO_ONLY"}
    router = {"name": "r1", "network": "global/networks/default", "nats": [nat]}
    compute("routers.insert", **REGION, router_resource=router)
    assert compute("routers.get", **REGION, router="r1").nats[0].name == "n1"
    compute("routers.delete", **REGION, router="r1")
    flag = {"private_ip_google_access": True}
    where = {**REGION, "subnetwork": "default"}
    compute(
        "subnetworks.set_private_ip_google_access",
        **where,
        subnetworks_set_private_ip_google_access_request_resource=flag,
    )
    assert compute("subnetworks.get", **where).private_ip_google_access
    before = compute("projects.get", **PROJECT).common_instance_metadata
    items = {"items": [{"key": "k", "value": "v"}], "fingerprint": before.fingerprint}
    compute("projects.set_common_instance_metadata", **PROJECT, metadata_resource=items)
    compute("disks.insert", **ZONE, disk_resource={"name": "d1", "size_gb": 10})
    compute("disks.resize", **ZONE, disk="d1", disks_resize_request_resource={"size_gb": 20})
    assert compute("disks.get", **ZONE, disk="d1").size_gb == 20


def _running(compute: Compute) -> None:
    vm = compute("instances.get", **VM)
    labels = {"labels": {"a": "b"}, "label_fingerprint": vm.label_fingerprint}
    compute("instances.set_labels", **VM, instances_set_labels_request_resource=labels)
    items = [{"key": "enable-guest-attributes", "value": "TRUE"}]
    metadata = {"items": items, "fingerprint": vm.metadata.fingerprint}
    compute("instances.set_metadata", **VM, metadata_resource=metadata)
    tags = {"items": ["t"], "fingerprint": vm.tags.fingerprint}
    compute("instances.set_tags", **VM, tags_resource=tags)
    source = "projects/local-tests/zones/us-central1-a/disks/d1"
    compute("instances.attach_disk", **VM, attached_disk_resource={"source": source, "device_name": "extra"})
    assert [disk.device_name for disk in compute("instances.get", **VM).disks][1:] == ["extra"]
    compute("instances.detach_disk", **VM, device_name="extra")
    compute("disks.delete", **ZONE, disk="d1")
    compute("instances.reset", **VM)
    compute("instances.set_deletion_protection", project=VM["project"], zone=VM["zone"], resource="vm1")
    compute(
        "instances.set_deletion_protection",
        project=VM["project"],
        zone=VM["zone"],
        resource="vm1",
        deletion_protection=False,
    )


def _stopped(compute: Compute) -> None:
    compute("instances.stop", **VM)
    kind = {"machine_type": "zones/us-central1-a/machineTypes/e2-medium"}
    compute("instances.set_machine_type", **VM, instances_set_machine_type_request_resource=kind)
    account = {"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
    compute("instances.set_service_account", **VM, instances_set_service_account_request_resource=account)
    compute("instances.set_scheduling", **VM, scheduling_resource={"automatic_restart": False})
    compute("instances.start", **VM)
    vm = compute("instances.get", **VM)
    assert (vm.machine_type.rpartition("/")[2], vm.scheduling.automatic_restart) == ("e2-medium", False)
    compute("instances.delete", **VM)
