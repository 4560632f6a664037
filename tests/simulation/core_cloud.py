"""The product's cloud over the core, without sockets and threads.

`GoogleCloud` itself, with its retries, its looking after lost replies and its waiting, is what runs here: only the
client libraries and the wire below it are replaced, by requests with the paths and the JSON that the libraries send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic_core import from_json, to_json

from tests.simulation.camel import camel
from tests.simulation.core_rest import CoreRest
from tests.simulation.lives import Life, LifeClock
from tests.simulation.net import Net
from tpuops.cloud import compute, tpu
from tpuops.cloud.answers import Answer, no_answer, of_compute, of_http, of_operation
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.failures import classify
from tpuops.cloud.operations import Waiting
from tpuops.cloud.port import ObjectStat, StoredObject
from tpuops.localcloud.core.wire import Reply, Request
from tpuops.resources import Bucket, BucketSpec, Node, NodeSpec, Place, Vm, VmSpec, Worker

Result = TypeVar("Result")
AUTHOR = "x-author"
"""A header that says which controller asks; the core does not read it."""
PATIENCE_S = 30.0
"""A client library's time-out: an answer that comes later is none."""
CHANGES = {f"tpu.nodes.{verb}" for verb in ("create", "delete", "stop", "start")}
CHANGES |= {f"compute.instances.{verb}" for verb in ("insert", "delete")}
"""Calls that make, end or unmake a machine."""


class Refusal(Exception):
    """What the service answered instead of a result."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class CoreCaller:
    """Stands in for `tpuops.cloud.calls.Caller`: one controller's calls, at each of which it may die."""

    def __init__(self, life: Life) -> None:
        self.clock = LifeClock(life)
        self._life = life

    async def ask(self, method: str, resource: str, function: Callable[[], Awaitable[Result]]) -> Result:
        """What the call returned, or the error that the product makes of the answer."""
        await self._life.at("send", method)
        if method in CHANGES:
            self._life.on_change(self._life, method)
        try:
            result = await function()
        except Refusal as refusal:
            await self._life.at("reply")
            raise classify(method, resource, refusal.answer) from refusal
        await self._life.at("reply")
        return result


class CoreCloud(GoogleCloud):
    """The port's `Cloud`, and `store`, for one controller."""

    def __init__(self, net: Net, life: Life) -> None:
        wire = Wire(net, life)
        self._caller = CoreCaller(life)
        self._tpu, self._compute, self._storage = CoreTpu(wire), CoreCompute(wire), CoreStorage(wire)
        self._rest = CoreRest(wire)
        self._numbers = {}
        self._waiting = Waiting(self._tpu, self._compute, self._caller, self._state)


class Wire:
    """Sends requests as JSON; a refusal, a lost reply and a reply that comes too late are raised."""

    def __init__(self, net: Net, life: Life) -> None:
        self._net, self._life = net, life

    async def reply(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        patience_s: float = PATIENCE_S,
    ) -> Reply:
        """The reply of a call that succeeded."""
        headers = {"content-type": content_type, "authorization": "Bearer sim", AUTHOR: str(self._life.pid)}
        began = self._net.now()
        reply = await self._net.exchange(Request(verb, path, query or {}, headers, body))
        took_s = self._net.now() - began
        await self._life.at("commit")
        if reply.drop or took_s > patience_s:
            raise Refusal(no_answer("no answer: the connection was closed"))
        if reply.status >= 400:
            raise Refusal(of_http(reply.status, reply.body))
        return reply

    async def json(self, verb: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """The JSON of a call that succeeded."""
        data = b"" if body is None else to_json(body)
        return from_json((await self.reply(verb, path, query, data)).body or b"{}", cache_strings="keys")

    def now(self) -> datetime:
        """The server's clock, to the microsecond."""
        return datetime.fromtimestamp(self._net.now(), UTC)


class CoreTpu:
    """`TpuService` over the wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def get(self, place: Place, name: str) -> Node:
        return node(place, await self._wire.json("GET", f"/v2/{tpu.path(place, name)}"))

    async def accelerator_types(self, place: Place) -> frozenset[str]:
        reply = await self._wire.json("GET", f"/v2/{tpu.parent(place)}/acceleratorTypes")
        return frozenset(each["type"] for each in reply.get("acceleratorTypes", []))

    async def runtime_versions(self, place: Place) -> frozenset[str]:
        reply = await self._wire.json("GET", f"/v2/{tpu.parent(place)}/runtimeVersions")
        return frozenset(each["version"] for each in reply.get("runtimeVersions", []))

    async def everywhere(self, project: str) -> tuple[Node, ...]:
        reply = await self._wire.json("GET", f"/v2/{tpu.parent(Place(project, '-'))}/nodes")
        return tuple(node(Place(project, each["name"].split("/")[3]), each) for each in reply.get("nodes", []))

    async def create(self, spec: NodeSpec) -> str:
        path = f"/v2/{tpu.parent(spec.place)}/nodes"
        return str((await self._wire.json("POST", path, {"nodeId": spec.name}, camel(tpu.message(spec))))["name"])

    async def delete(self, place: Place, name: str) -> str:
        return str((await self._wire.json("DELETE", f"/v2/{tpu.path(place, name)}"))["name"])

    async def stop(self, place: Place, name: str) -> str:
        return str((await self._wire.json("POST", f"/v2/{tpu.path(place, name)}:stop", body={}))["name"])

    async def start(self, place: Place, name: str) -> str:
        return str((await self._wire.json("POST", f"/v2/{tpu.path(place, name)}:start", body={}))["name"])

    async def set_metadata(self, place: Place, name: str, metadata: Mapping[str, str]) -> str:
        path, body = f"/v2/{tpu.path(place, name)}", {"metadata": dict(metadata)}
        return str((await self._wire.json("PATCH", path, {"updateMask": "metadata"}, body))["name"])

    async def set_labels(self, place: Place, name: str, labels: Mapping[str, str]) -> str:
        path, body = f"/v2/{tpu.path(place, name)}", {"labels": dict(labels)}
        return str((await self._wire.json("PATCH", path, {"updateMask": "labels"}, body))["name"])

    async def poll(self, operation: str) -> Answer | bool:
        found = await self._wire.json("GET", f"/v2/{operation}")
        if not found.get("done"):
            return False
        error = found.get("error")
        return of_operation(error["code"], error["message"], error.get("details", ())) if error else True

    async def host_keys(self, place: Place, name: str, worker: int) -> tuple[str, ...]:
        path = f"/v2/{tpu.path(place, name)}:getGuestAttributes"
        reply = await self._wire.json("POST", path, body={"workerIds": [str(worker)]})
        entries = [entry.get("queryValue", {}).get("items", []) for entry in reply.get("guestAttributes", [])]
        items = [item for entry in entries for item in entry]
        return tuple(f"{item['key']} {item['value']}" for item in items if item.get("namespace") == "hostkeys")


class CoreCompute:
    """`ComputeService` over the wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def get(self, place: Place, name: str) -> Vm:
        return vm(place, await self._wire.json("GET", f"/compute/v1/{compute.path(place, name)}"))

    async def everywhere(self, project: str, labels: Mapping[str, str]) -> tuple[Vm, ...]:
        wanted = " AND ".join(f"labels.{key}={value}" for key, value in labels.items())
        path = f"/compute/v1/projects/{project}/aggregated/instances"
        zones = (await self._wire.json("GET", path, {"filter": wanted})).get("items", {})
        found = (
            (zone.rpartition("/")[2], each) for zone, scoped in zones.items() for each in scoped.get("instances", [])
        )
        return tuple(vm(Place(project, zone), each) for zone, each in found)

    async def insert(self, spec: VmSpec, request_id: str) -> str:
        path = f"/compute/v1/projects/{spec.place.project}/zones/{spec.place.zone}/instances"
        body = camel(compute.message(spec))
        return str((await self._wire.json("POST", path, {"requestId": request_id}, body))["name"])

    async def delete(self, place: Place, name: str, request_id: str) -> str:
        path = f"/compute/v1/{compute.path(place, name)}"
        return str((await self._wire.json("DELETE", path, {"requestId": request_id}))["name"])

    async def set_labels(self, vm: Vm, labels: Mapping[str, str]) -> str:
        path = f"/compute/v1/{compute.path(vm.place, vm.name)}/setLabels"
        body = {"labelFingerprint": vm.label_fingerprint, "labels": dict(labels)}
        return str((await self._wire.json("POST", path, body=body))["name"])

    async def wait(self, place: Place, operation: str, timeout_s: float) -> Answer | bool:
        path = f"/compute/v1/projects/{place.project}/zones/{place.zone}/operations/{operation}/wait"
        patience_s = min(timeout_s, compute.LONGEST_WAIT_S)
        found = from_json((await self._wire.reply("POST", path, patience_s=patience_s)).body)
        if found["status"] != "DONE":
            return False
        errors = found.get("error", {}).get("errors", [])
        status = int(found.get("httpErrorStatusCode", 0))
        if not errors and not status:
            return True
        return of_compute(errors, status, found.get("httpErrorMessage", ""))

    async def project_metadata(self, project: str) -> Mapping[str, str]:
        found = await self._wire.json("GET", f"/compute/v1/projects/{project}")
        return {item["key"]: item["value"] for item in found.get("commonInstanceMetadata", {}).get("items", [])}

    async def project_number(self, project: str) -> str:
        return str((await self._wire.json("GET", f"/compute/v1/projects/{project}"))["id"])


class CoreStorage:
    """`StorageService` over the wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def bucket(self, name: str) -> Bucket:
        return bucket(await self._wire.json("GET", f"/storage/v1/b/{name}"))

    async def create_bucket(self, spec: BucketSpec) -> Bucket:
        body = {
            "name": spec.name,
            "labels": dict(spec.labels),
            "location": spec.location.upper(),
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
            "softDeletePolicy": {"retentionDurationSeconds": "0"},
        }
        return bucket(await self._wire.json("POST", "/storage/v1/b", {"project": spec.project}, body))

    async def read(self, bucket_name: str, name: str) -> StoredObject | None:
        path = f"/b/{bucket_name}/o/{quote(name, safe='')}"
        try:
            found = stat(await self._wire.json("GET", f"/storage/v1{path}", {"projection": "noAcl"}))
        except Refusal as refusal:
            if refusal.answer.status == 404:
                return None
            raise
        now = self._wire.now().replace(microsecond=0)  # an HTTP date
        query = {"alt": "media", "ifGenerationMatch": str(found.generation)}
        try:
            data = (await self._wire.reply("GET", f"/download/storage/v1{path}", query)).body
        except Refusal as refusal:
            if refusal.answer.status in {404, 412}:
                return await self.read(bucket_name, name)
            raise
        return StoredObject(found, data, now)

    async def write(self, bucket_name: str, name: str, data: bytes, if_generation: int | None) -> ObjectStat:
        query = {"uploadType": "multipart"}
        if if_generation is not None:
            query["ifGenerationMatch"] = str(if_generation)
        about = to_json({"name": name, "contentType": "application/octet-stream"})
        body = (
            b"--=x=\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n" + about + b"\r\n"
            b"--=x=\r\ncontent-type: application/octet-stream\r\n\r\n" + data + b"\r\n--=x=--"
        )
        kind = 'multipart/related; boundary="=x="'
        reply = await self._wire.reply("POST", f"/upload/storage/v1/b/{bucket_name}/o", query, body, kind)
        return stat(from_json(reply.body, cache_strings="keys"))

    async def delete(self, bucket_name: str, name: str, if_generation: int | None) -> None:
        query = {} if if_generation is None else {"ifGenerationMatch": str(if_generation)}
        await self._wire.reply("DELETE", f"/storage/v1/b/{bucket_name}/o/{quote(name, safe='')}", query)

    async def list(self, bucket_name: str, prefix: str) -> tuple[ObjectStat, ...]:
        found, token = [], ""
        while True:
            query = {"prefix": prefix, **({"pageToken": token} if token else {})}
            page = await self._wire.json("GET", f"/storage/v1/b/{bucket_name}/o", query)
            found += [stat(item) for item in page.get("items", [])]
            token = page.get("nextPageToken", "")
            if not token:
                return tuple(found)


def node(place: Place, shown: Mapping[str, Any]) -> Node:
    """A node's JSON as our value."""
    scheduling = shown.get("schedulingConfig", {})
    endpoints = enumerate(shown.get("networkEndpoints", []))
    return Node(
        name=shown["name"].rpartition("/")[2],
        place=place,
        id=shown["id"],
        state=shown["state"],
        health=shown.get("health", "HEALTH_UNSPECIFIED"),
        accelerator=shown["acceleratorType"],
        runtime=shown["runtimeVersion"],
        spot=bool(scheduling.get("spot") or scheduling.get("preemptible")),
        labels=shown.get("labels", {}),
        workers=tuple(
            Worker(index, at.get("ipAddress", ""), at.get("accessConfig", {}).get("externalIp", ""))
            for index, at in endpoints
        ),
        created=datetime.fromisoformat(shown["createTime"]),
        metadata=shown.get("metadata", {}),
        queued_resource=shown.get("queuedResource", ""),
    )


def vm(place: Place, shown: Mapping[str, Any]) -> Vm:
    """An instance's JSON as our value."""
    interface = (shown.get("networkInterfaces") or [{}])[0]
    access = (interface.get("accessConfigs") or [{}])[0]
    return Vm(
        name=shown["name"],
        place=place,
        id=str(shown["id"]),
        state=shown["status"],
        machine_type=shown["machineType"].rpartition("/")[2],
        labels=shown.get("labels", {}),
        internal_ip=interface.get("networkIP", ""),
        external_ip=access.get("natIP", ""),
        created=datetime.fromisoformat(shown["creationTimestamp"]).astimezone(UTC),
        label_fingerprint=shown["labelFingerprint"],
    )


def bucket(shown: Mapping[str, Any]) -> Bucket:
    """A bucket's JSON as our value."""
    created = datetime.fromisoformat(shown["timeCreated"])
    return Bucket(shown["name"], shown["location"].lower(), shown["projectNumber"], shown.get("labels", {}), created)


def stat(shown: Mapping[str, Any]) -> ObjectStat:
    """An object's JSON as our value."""
    updated = datetime.fromisoformat(shown["updated"])
    return ObjectStat(shown["name"], int(shown["generation"]), int(shown["size"]), shown.get("md5Hash", ""), updated)
