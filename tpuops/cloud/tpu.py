"""The Cloud TPU API v2 through google-cloud-tpu over REST: specs into its messages, its messages into our values.

Methods are synchronous and run in the threads of `calls`; nothing here waits, repeats or classifies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tpuops.cloud.answers import Answer, of_operation
from tpuops.cloud.calls import TIMEOUT_S
from tpuops.cloud.credentials import SCOPE
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.threads import Once
from tpuops.resources import Disk, Link, Node, NodeSpec, Place, Symptom, Worker

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.tpu_v2 import TpuClient

# The library retries by itself unless told not to, and waits for ever unless given a time (google-cloud.md 2.1).
_ONCE: dict[str, Any] = {"retry": None, "timeout": TIMEOUT_S}


def path(place: Place, name: str) -> str:
    """A node's full resource name."""
    return f"{parent(place)}/nodes/{name}"


def parent(place: Place) -> str:
    """The location that holds nodes."""
    return f"projects/{place.project}/locations/{place.zone}"


class TpuService:
    """The methods that tpuops uses. Each raises what the client library raises."""

    def __init__(self, endpoints: Endpoints, who: Callable[[], Credentials]) -> None:
        self._endpoints, self._who = endpoints, who
        self._client = Once(self._build)

    def _build(self) -> TpuClient:
        from google.cloud import tpu_v2  # noqa: PLC0415 - a second that `--help` must not pay

        options = {"api_endpoint": self._endpoints.tpu}
        return tpu_v2.TpuClient(credentials=self._who(), transport="rest", client_options=options)

    def get(self, place: Place, name: str) -> Node:
        """nodes.get."""
        return node(place, self._client().get_node(request={"name": path(place, name)}, **_ONCE))

    def accelerator_types(self, place: Place) -> frozenset[str]:
        """acceleratorTypes.list, all pages."""
        found = self._client().list_accelerator_types(request={"parent": parent(place)}, **_ONCE)
        return frozenset(each.type_ for each in found)

    def runtime_versions(self, place: Place) -> frozenset[str]:
        """runtimeVersions.list, all pages."""
        found = self._client().list_runtime_versions(request={"parent": parent(place)}, **_ONCE)
        return frozenset(each.version for each in found)

    def everywhere(self, project: str) -> tuple[Node, ...]:
        """nodes.list in the zone `-`, which means all of them (google-cloud.md 1.1), all pages."""
        found = self._client().list_nodes(request={"parent": parent(Place(project, "-"))}, **_ONCE)
        return tuple(node(Place(project, each.name.split("/")[3]), each) for each in found)

    def create(self, spec: NodeSpec) -> str:
        """nodes.create; the operation's name. There is no request id: only the node's name protects against doubles."""
        request = {"parent": parent(spec.place), "node_id": spec.name, "node": message(spec)}
        return _operation(self._client().create_node(request=request, **_ONCE))

    def delete(self, place: Place, name: str) -> str:
        """nodes.delete; the operation's name."""
        return _operation(self._client().delete_node(request={"name": path(place, name)}, **_ONCE))

    def stop(self, place: Place, name: str) -> str:
        """nodes.stop; the operation's name."""
        return _operation(self._client().stop_node(request={"name": path(place, name)}, **_ONCE))

    def start(self, place: Place, name: str) -> str:
        """nodes.start; the operation's name."""
        return _operation(self._client().start_node(request={"name": path(place, name)}, **_ONCE))

    def set_metadata(self, place: Place, name: str, metadata: Mapping[str, str]) -> str:
        """nodes.patch of the whole metadata map (it has no fingerprint, 2.1); the operation's name."""
        return self._patch(place, name, "metadata", metadata)

    def set_labels(self, place: Place, name: str, labels: Mapping[str, str]) -> str:
        """nodes.patch of all labels (they have no fingerprint either, 3.3.6); the operation's name."""
        return self._patch(place, name, "labels", labels)

    def _patch(self, place: Place, name: str, field: str, value: Mapping[str, str]) -> str:
        changed = {"name": path(place, name), field: dict(value)}
        request = {"node": changed, "update_mask": {"paths": [field]}}
        return _operation(self._client().update_node(request=request, **_ONCE))

    def poll(self, operation: str) -> Answer | bool:
        """operations.get: False while it runs, True when it succeeded, else what it failed with."""
        found = self._client().get_operation(request={"name": operation}, **_ONCE)
        if not found.done:
            return False
        if not found.HasField("error"):
            return True
        return of_operation(found.error.code, found.error.message, tuple(_details(found.error.details)))

    def host_keys(self, place: Place, name: str, worker: int) -> tuple[str, ...]:
        """nodes.getGuestAttributes, namespace `hostkeys` of one worker, as `type base64` lines."""
        items = self._guest(place, name, worker)
        return tuple(f"{item.key} {item.value}" for item in items if item.namespace == "hostkeys")

    def instance_of(self, place: Place, name: str, worker: int) -> str:
        """nodes.getGuestAttributes, key `hostname` of one worker (google-cloud.md 2.8)."""
        items = self._guest(place, name, worker)
        return next((str(item.value) for item in items if item.key == "hostname"), "")

    def _guest(self, place: Place, name: str, worker: int) -> list[Any]:
        request = {"name": path(place, name), "worker_ids": [str(worker)]}
        reply = self._client().get_guest_attributes(request=request, **_ONCE)
        return [item for entry in reply.guest_attributes for item in entry.query_value.items]


def message(spec: NodeSpec) -> dict[str, Any]:
    """The Node to send. Without a service account the API takes the project's default one with every scope."""
    node: dict[str, Any] = {
        "accelerator_type": spec.accelerator,
        "runtime_version": spec.runtime,
        "labels": dict(spec.labels),
        "metadata": dict(spec.metadata),
        "network_config": {
            "network": _in_project(spec.place.project, "global/networks", spec.link.network),
            "enable_external_ips": spec.link.external,
        },
    }
    if spec.link.subnetwork:
        where = f"regions/{spec.place.region}/subnetworks"
        node["network_config"]["subnetwork"] = _in_project(spec.place.project, where, spec.link.subnetwork)
    if spec.disks:
        disks = f"zones/{spec.place.zone}/disks"
        node["data_disks"] = [
            {
                "source_disk": _in_project(spec.place.project, disks, disk.name),
                "mode": "READ_ONLY" if disk.read_only else "READ_WRITE",
            }
            for disk in spec.disks
        ]
    if spec.spot:
        node["scheduling_config"] = {"spot": True}
    if spec.service_account:
        node["service_account"] = {"email": spec.service_account, "scope": [SCOPE]}
    return node


def node(place: Place, found: Any) -> Node:
    """The Node that came, as our value."""
    raw = type(found).pb(found)
    return Node(
        name=found.name.rpartition("/")[2],
        place=place,
        id=str(found.id),
        state=_word(found.State, raw.state),
        health=_word(found.Health, raw.health),
        accelerator=found.accelerator_type,
        runtime=found.runtime_version,
        spot=found.scheduling_config.spot or found.scheduling_config.preemptible,
        labels=dict(found.labels),
        workers=tuple(
            Worker(index, endpoint.ip_address, endpoint.access_config.external_ip)
            for index, endpoint in enumerate(found.network_endpoints)
        ),
        created=_time(found.create_time),
        metadata=dict(found.metadata),
        queued_resource=found.queued_resource,
        link=_link(found.network_config) if raw.HasField("network_config") else None,
        service_account=found.service_account.email,
        disks=tuple(
            Disk(_last(disk.source_disk), _word(disk.DiskMode, disk.mode) == "READ_ONLY") for disk in found.data_disks
        ),
        symptoms=tuple(
            Symptom(_word(each.SymptomType, each.symptom_type), each.worker_id, _time(each.create_time))
            for each in found.symptoms
        ),
    )


def _time(found: Any) -> datetime | None:
    return datetime.fromtimestamp(found.timestamp(), UTC) if found else None


def _in_project(project: str, where: str, name: str) -> str:
    """A full name as it is; a plain one in this project. The default network has no other name."""
    return name if "/" in name or name == "default" else f"projects/{project}/{where}/{name}"


def _link(config: Any) -> Link:
    return Link(_last(config.network) or "default", _last(config.subnetwork), config.enable_external_ips)


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _word(words: Any, number: int) -> str:
    """An enum's name; a number that this library does not know yet stays visible (google-cloud.md 2.2)."""
    try:
        return str(words(number).name)
    except ValueError:
        return f"UNKNOWN_{number}"


def _operation(started: Any) -> str:
    return str(started.operation.name)


def _details(details: Any) -> Iterator[dict[str, Any]]:
    """The details that matter to a verdict, from their packed form."""
    from google.rpc import error_details_pb2  # noqa: PLC0415

    for packed in details:
        found: dict[str, Any] = {"@type": packed.type_url}
        info = error_details_pb2.ErrorInfo()
        if packed.Is(info.DESCRIPTOR):
            packed.Unpack(info)
            found |= {"reason": info.reason, "metadata": dict(info.metadata)}
        yield found
