"""Compute Engine v1 through google-cloud-compute: the machine beside the TPU.

Methods are synchronous and run in the threads of `calls`; nothing here waits beyond one call, repeats or classifies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tpuops.cloud.answers import Answer, of_compute
from tpuops.cloud.calls import TIMEOUT_S
from tpuops.cloud.credentials import SCOPE
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.imports import submodules
from tpuops.cloud.threads import Once
from tpuops.resources import Link, Place, Vm, VmSpec

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_ONCE: dict[str, Any] = {"retry": None, "timeout": TIMEOUT_S}
LONGEST_WAIT_S = 130.0
"""zoneOperations.wait answers after at most two minutes (google-cloud.md 3.3.1); a little more is for the way."""


def path(place: Place, name: str) -> str:
    """An instance's resource name."""
    return f"projects/{place.project}/zones/{place.zone}/instances/{name}"


class ComputeService:
    """The methods that tpuops uses. Each raises what the client library raises."""

    def __init__(self, endpoints: Endpoints, who: Callable[[], Credentials]) -> None:
        self._endpoints, self._who = endpoints, who
        self._library = Once(_library, heavy=True)
        self._instances = Once(lambda: self._library().InstancesClient(**self._options()), heavy=True)
        self._operations = Once(lambda: self._library().ZoneOperationsClient(**self._options()), heavy=True)
        self._projects = Once(lambda: self._library().ProjectsClient(**self._options()), heavy=True)

    def _options(self) -> dict[str, Any]:
        return {"credentials": self._who(), "client_options": {"api_endpoint": self._endpoints.compute}}

    def get(self, place: Place, name: str) -> Vm:
        """instances.get."""
        return vm(place, self._instances().get(request=_at(place, instance=name), **_ONCE))

    def everywhere(self, project: str, labels: Mapping[str, str]) -> tuple[Vm, ...]:
        """instances.aggregatedList by labels, all pages."""
        wanted = " AND ".join(f"labels.{key}={value}" for key, value in labels.items())
        pages = self._instances().aggregated_list(request={"project": project, "filter": wanted}, **_ONCE)
        zones = ((zone.rpartition("/")[2], scoped.instances) for zone, scoped in pages)
        return tuple(vm(Place(project, zone), found) for zone, instances in zones for found in instances)

    def insert(self, spec: VmSpec, request_id: str) -> str:
        """instances.insert; the operation's name. The same request id names the same insertion."""
        resource = self._library().Instance(message(spec))
        request = _at(spec.place, instance_resource=resource, request_id=request_id)
        return str(self._instances().insert_unary(request=request, **_ONCE).name)

    def delete(self, place: Place, name: str, request_id: str) -> str:
        """instances.delete; the operation's name."""
        return str(
            self._instances().delete_unary(request=_at(place, instance=name, request_id=request_id), **_ONCE).name
        )

    def wait(self, place: Place, operation: str, timeout_s: float) -> Answer | bool:
        """zoneOperations.wait: False where it still runs, True when it succeeded, else what it failed with."""
        request = _at(place, operation=operation)
        found = self._operations().wait(request=request, retry=None, timeout=min(timeout_s, LONGEST_WAIT_S))
        if found.status != self._library().Operation.Status.DONE:
            return False
        errors = [{"code": error.code, "message": error.message} for error in found.error.errors]
        if not errors and not found.http_error_status_code:
            return True
        return of_compute(errors, found.http_error_status_code, found.http_error_message)

    def host_keys(self, place: Place, name: str) -> tuple[str, ...]:
        """instances.getGuestAttributes, namespace `hostkeys`, as `type base64` lines."""
        request = _at(place, instance=name, query_path="hostkeys/")
        items = self._instances().get_guest_attributes(request=request, **_ONCE).query_value.items
        return tuple(f"{item.key} {item.value}" for item in items if item.namespace == "hostkeys")

    def set_metadata(self, vm: Vm, metadata: Mapping[str, str]) -> str:
        """instances.setMetadata over the fingerprint that was read; the operation's name."""
        items = [{"key": key, "value": value} for key, value in metadata.items()]
        wanted = self._library().Metadata({"fingerprint": vm.fingerprint, "items": items})
        request = _at(vm.place, instance=vm.name, metadata_resource=wanted)
        return str(self._instances().set_metadata_unary(request=request, **_ONCE).name)

    def set_labels(self, vm: Vm, labels: Mapping[str, str]) -> str:
        """instances.setLabels over the fingerprint that was read; the operation's name."""
        wanted = {"label_fingerprint": vm.label_fingerprint, "labels": dict(labels)}
        resource = self._library().InstancesSetLabelsRequest(wanted)
        request = _at(vm.place, instance=vm.name, instances_set_labels_request_resource=resource)
        return str(self._instances().set_labels_unary(request=request, **_ONCE).name)

    def project_metadata(self, project: str) -> Mapping[str, str]:
        """projects.get; its commonInstanceMetadata."""
        found = self._projects().get(request={"project": project}, **_ONCE).common_instance_metadata
        return {item.key: item.value for item in found.items}

    def project_number(self, project: str) -> str:
        """projects.get; its `id` is the project's number."""
        return str(self._projects().get(request={"project": project}, **_ONCE).id)


def _library() -> SimpleNamespace:
    """The three clients and four messages that are used, out of more than a hundred."""
    parts = (
        "services.instances.client",
        "services.zone_operations.client",
        "services.projects.client",
        "types.compute",
    )
    instances, operations, projects, messages = submodules("google.cloud.compute_v1", *parts)
    return SimpleNamespace(
        InstancesClient=instances.InstancesClient,
        ZoneOperationsClient=operations.ZoneOperationsClient,
        ProjectsClient=projects.ProjectsClient,
        Instance=messages.Instance,
        InstancesSetLabelsRequest=messages.InstancesSetLabelsRequest,
        Metadata=messages.Metadata,
        Operation=messages.Operation,
    )


def message(spec: VmSpec) -> dict[str, Any]:
    """The Instance to send (facts: google-cloud.md 3.1.1, 3.1.2, 3.2.1)."""
    zone = f"zones/{spec.place.zone}"
    disk = {"source_image": spec.image, "disk_size_gb": spec.disk_gb}
    instance: dict[str, Any] = {
        "name": spec.name,
        "machine_type": f"{zone}/machineTypes/{spec.machine_type}",
        "disks": [{"boot": True, "auto_delete": True, "initialize_params": disk}],
        "labels": dict(spec.labels),
        "metadata": {"items": [{"key": key, "value": value} for key, value in spec.metadata.items()]},
        "network_interfaces": [_interface(spec)],
        "service_accounts": [{"email": spec.service_account or "default", "scopes": [SCOPE]}],
    }
    if spec.terminate_at is not None:
        end = spec.terminate_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        instance["scheduling"] = {"termination_time": end, "instance_termination_action": "DELETE"}
    return instance


def _interface(spec: VmSpec) -> dict[str, Any]:
    project, link = spec.place.project, spec.link
    interface: dict[str, Any] = {"network": _in_project(project, "global/networks", link.network)}
    if link.subnetwork:
        interface["subnetwork"] = _in_project(project, f"regions/{spec.place.region}/subnetworks", link.subnetwork)
    if link.external:
        interface["access_configs"] = [{"name": "external-nat", "type_": "ONE_TO_ONE_NAT"}]
    return interface


def _in_project(project: str, where: str, name: str) -> str:
    """A full name as it is; a plain one in this project."""
    return name if "/" in name else f"projects/{project}/{where}/{name}"


def vm(place: Place, found: Any) -> Vm:
    """The Instance that came, as our value."""
    interface = found.network_interfaces[0] if found.network_interfaces else None
    access = interface.access_configs[0] if interface and interface.access_configs else None
    created = found.creation_timestamp
    return Vm(
        name=found.name,
        place=place,
        id=str(found.id),
        state=str(found.status),
        machine_type=found.machine_type.rpartition("/")[2],
        labels=dict(found.labels),
        internal_ip=interface.network_i_p if interface else "",
        external_ip=access.nat_i_p if access else "",
        created=datetime.fromisoformat(created).astimezone(UTC) if created else None,
        link=_link(interface) if interface else None,
        service_account=found.service_accounts[0].email if found.service_accounts else "",
        metadata={item.key: item.value for item in found.metadata.items},
        fingerprint=found.metadata.fingerprint,
        label_fingerprint=found.label_fingerprint,
    )


def _link(interface: Any) -> Link:
    network, subnetwork = interface.network.rpartition("/")[2], interface.subnetwork.rpartition("/")[2]
    return Link(network, subnetwork, external=bool(interface.access_configs))


def _at(place: Place, **more: Any) -> Mapping[str, Any]:
    return {"project": place.project, "zone": place.zone, **more}
