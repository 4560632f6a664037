"""What is around machines: quotas, networks, accounts and who may do what; looked at, and the few changes a fix makes.

Each change waits until it is done; a change that is repeated finds what it made and is content.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from tpuops.cloud import networks, quotas
from tpuops.cloud.answers import of_compute
from tpuops.cloud.calls import Caller
from tpuops.cloud.failures import classify
from tpuops.cloud.networks import Nat, Network, Rule, Subnetwork
from tpuops.cloud.rest import Rest
from tpuops.cloud.retry import repeatedly
from tpuops.errors import Conflict, NotFound, Transient
from tpuops.resources import Holding, Limit, Place

Result = TypeVar("Result")

CHANGE_S = 180.0
LOOK_S = 0.3
WRITING = frozenset(
    f"https://www.googleapis.com/auth/{scope}"
    for scope in ("cloud-platform", "devstorage.read_write", "devstorage.full_control")
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a machine is at Google, and for what its tokens are good; no account: it is nobody."""

    account: str
    scopes: frozenset[str]

    @property
    def writes_objects(self) -> bool:
        """Whether its tokens may write to a bucket, as far as scopes go (google-cloud.md 3.1.2)."""
        return bool(self.scopes & WRITING)


class Surroundings:
    """The calls about a project. Raise as `port` says."""

    def __init__(self, rest: Rest, caller: Caller) -> None:
        self._rest, self._caller = rest, caller

    async def tpu_limits(self, place: Place) -> tuple[Limit, ...]:
        """The TPU API's quotas that speak of a zone or its region; empty where nothing is limited there."""
        path = f"/v1/projects/{place.project}/locations/global/services/tpu.googleapis.com/quotaInfos"
        infos = await self._list("cloudquotas.quotaInfos.list", "cloudquotas", path, "quotaInfos")
        return quotas.limits(infos, place.zone) + quotas.limits(infos, place.region)

    async def region_limits(self, place: Place) -> tuple[Limit, ...]:
        """Compute Engine's quotas in the region of a zone, with what is used."""
        path = f"/compute/v1/projects/{place.project}/regions/{place.region}"
        return quotas.of_region(await self._get("compute.regions.get", "compute", path))

    async def vcpus(self, place: Place, machine_type: str) -> int | None:
        """How many CPUs a machine type has in a zone; None where the zone has no such type."""
        path = f"/compute/v1/projects/{place.project}/zones/{place.zone}/machineTypes/{machine_type}"
        found = await self._found("compute.machineTypes.get", "compute", path)
        return None if found is None else int(found.get("guestCpus", 0))

    async def holdings(self, project: str) -> tuple[Holding, ...]:
        """What queued resources hold, in all zones and in every state."""
        path = f"/v2/projects/{project}/locations/-/queuedResources"
        return quotas.holdings(await self._list("tpu.queuedResources.list", "tpu", path, "queuedResources"))

    async def network(self, project: str, name: str) -> Network | None:
        """The network, or None."""
        found = await self._found("compute.networks.get", "compute", f"{_global(project, 'networks', name)}")
        return networks.network(found) if found else None

    async def subnetwork(self, project: str, region: str, name: str) -> Subnetwork | None:
        """The subnetwork, or None."""
        path = _regional(project, region, "subnetworks", name)
        found = await self._found("compute.subnetworks.get", "compute", path)
        return networks.subnetwork(found) if found else None

    async def rules(self, project: str) -> tuple[Rule, ...]:
        """The firewall rules for what comes in, of all networks."""
        path = f"/compute/v1/projects/{project}/global/firewalls"
        found = map(networks.rule, await self._list("compute.firewalls.list", "compute", path, "items"))
        return tuple(rule for rule in found if rule is not None)

    async def nats(self, project: str, region: str) -> tuple[Nat, ...]:
        """Who translates addresses in a region."""
        path = f"/compute/v1/projects/{project}/regions/{region}/routers"
        found = await self._list("compute.routers.list", "compute", path, "items")
        return tuple(nat for router in found for nat in networks.nats(router))

    async def open_port(self, project: str, network: str, name: str, port: int, ranges: Sequence[str]) -> None:
        """A firewall rule that lets a TCP port in from these ranges."""
        body = {
            "name": name,
            "network": f"projects/{project}/global/networks/{network}",
            "direction": "INGRESS",
            "allowed": [{"IPProtocol": "tcp", "ports": [str(port)]}],
            "sourceRanges": list(ranges),
            "description": "made by tpuops doctor --fix",
        }
        path = f"/compute/v1/projects/{project}/global/firewalls"
        await self._made("compute.firewalls.insert", path, body)

    async def give_private_access(self, project: str, subnetwork: Subnetwork) -> None:
        """Switch Private Google Access on."""
        path = _regional(project, subnetwork.region, "subnetworks", subnetwork.name)
        await self._changed(
            "compute.subnetworks.setPrivateIpGoogleAccess",
            f"{path}/setPrivateIpGoogleAccess",
            {"privateIpGoogleAccess": True},
        )

    async def make_nat(self, project: str, subnetwork: Subnetwork, name: str) -> None:
        """A router of that name which lets the machines of one subnetwork out."""
        own = f"projects/{project}/regions/{subnetwork.region}/subnetworks/{subnetwork.name}"
        nat = {
            "name": name,
            "natIpAllocateOption": "AUTO_ONLY",
            "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
            "subnetworks": [{"name": own, "sourceIpRangesToNat": ["ALL_IP_RANGES"]}],
        }
        body = {"name": name, "network": f"projects/{project}/global/networks/{subnetwork.network}", "nats": [nat]}
        path = f"/compute/v1/projects/{project}/regions/{subnetwork.region}/routers"
        await self._made("compute.routers.insert", path, body)

    async def identity_of_vm(self, place: Place, name: str) -> Identity | None:
        """Who an instance is, None where there is no such instance."""
        path = f"/compute/v1/projects/{place.project}/zones/{place.zone}/instances/{name}"
        found = await self._found("compute.instances.get", "compute", path)
        return None if found is None else identity((found.get("serviceAccounts") or [{}])[0], "scopes")

    async def identity_of_node(self, place: Place, name: str) -> Identity | None:
        """Who the workers of a slice are, None where there is no such slice."""
        path = f"/v2/projects/{place.project}/locations/{place.zone}/nodes/{name}"
        found = await self._found("tpu.nodes.get", "tpu", path)
        return None if found is None else identity(found.get("serviceAccount") or {}, "scope")

    async def rescope_vm(self, place: Place, name: str, account: str, scopes: Sequence[str]) -> None:
        """Give an instance an account and scopes, which Compute Engine takes only while it is stopped (3.1.2)."""
        path = f"/compute/v1/projects/{place.project}/zones/{place.zone}/instances/{name}"
        await self._changed("compute.instances.stop", f"{path}/stop", {})
        body = {"email": account or "default", "scopes": list(scopes)}
        await self._changed("compute.instances.setServiceAccount", f"{path}/setServiceAccount", body)
        await self._changed("compute.instances.start", f"{path}/start", {})

    async def has_account(self, project: str, email: str) -> bool:
        """Whether a service account is there."""
        path = f"/v1/projects/{project}/serviceAccounts/{email}"
        return await self._found("iam.serviceAccounts.get", "iam", path) is not None

    async def make_account(self, project: str, name: str, title: str) -> None:
        """Make a service account; one that is there is fine."""
        body = {"accountId": name, "serviceAccount": {"displayName": title}}
        path = f"/v1/projects/{project}/serviceAccounts"
        try:
            await self._post("iam.serviceAccounts.create", "iam", path, body)
        except Conflict:
            return

    async def project_roles(self, project: str, member: str) -> frozenset[str]:
        """The roles a member has on the project itself. Folders and groups are not looked into."""
        path = f"/v1/projects/{project}:getIamPolicy"
        policy = await self._post("resourcemanager.projects.getIamPolicy", "resourcemanager", path, {})
        return _roles(policy, member)

    async def bucket_roles(self, bucket: str, member: str) -> frozenset[str]:
        """The roles a member has on the bucket itself."""
        return _roles(await self._policy(bucket), member)

    async def grant_on_bucket(self, bucket: str, member: str, roles: Sequence[str]) -> None:
        """Add roles on the bucket; what is there stays. Read, change, write under the policy's etag (4.11).

        Whatever came between, a lost reply too, is seen at the next reading.
        """
        path, method = f"/storage/v1/b/{bucket}/iam", "storage.buckets.setIamPolicy"
        read = lambda: self._rest.json("storage", "GET", path)  # noqa: E731 - asked again by name

        async def once() -> None:
            policy = await self._caller.ask("storage.buckets.getIamPolicy", bucket, read)
            lacking = [role for role in roles if role not in _roles(policy, member)]
            if not lacking:
                return
            bindings = [*policy.get("bindings", []), *({"role": role, "members": [member]} for role in lacking)]
            body = {**policy, "bindings": bindings}
            try:
                await self._caller.ask(method, bucket, lambda: self._rest.json("storage", "PUT", path, body=body))
            except Conflict as error:
                raise Transient(f"the policy of gs://{bucket} keeps changing", method=method) from error

        await repeatedly(once, self._caller.clock)

    async def bucket_permissions(self, bucket: str, wanted: Sequence[str]) -> frozenset[str]:
        """Which of these permissions on a bucket the caller has."""
        path, query = f"/storage/v1/b/{bucket}/iam/testPermissions", {"permissions": list(wanted)}
        found = await self._get("storage.buckets.testIamPermissions", "storage", path, query)
        return frozenset(found.get("permissions", ()))

    async def server_time(self, bucket: str) -> datetime | None:
        """The service's own clock, from the head of a reply; None where a proxy drops it."""
        ask = lambda: self._rest.date("storage", f"/storage/v1/b/{bucket}")  # noqa: E731 - asked again by name
        return await repeatedly(lambda: self._caller.ask("storage.buckets.get", bucket, ask), self._caller.clock)

    async def _policy(self, bucket: str) -> dict[str, Any]:
        return await self._get("storage.buckets.getIamPolicy", "storage", f"/storage/v1/b/{bucket}/iam")

    async def _get(
        self, method: str, service: str, path: str, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return await self._again(method, path, lambda: self._rest.json(service, "GET", path, query))

    async def _found(self, method: str, service: str, path: str) -> dict[str, Any] | None:
        try:
            return await self._get(method, service, path)
        except NotFound:
            return None

    async def _list(self, method: str, service: str, path: str, items: str) -> list[Any]:
        return await self._again(method, path, lambda: self._rest.pages(service, path, items))

    async def _post(
        self, method: str, service: str, path: str, body: Any, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return await self._again(method, path, lambda: self._rest.json(service, "POST", path, query, body))

    async def _again(self, method: str, path: str, ask: Callable[[], Result]) -> Result:
        """Asked again after a passing fault: what comes here is harmless twice."""
        name = path.partition("/projects/")[2] or path
        return await repeatedly(lambda: self._caller.ask(method, f"projects/{name}", ask), self._caller.clock)

    async def _made(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        """Made under its name; a second try that finds it is content."""
        try:
            await self._changed(method, path, body)
        except Conflict:
            await self._get(method.replace("insert", "get"), "compute", f"{path}/{body['name']}")

    async def _changed(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        """A change of Compute Engine's, and the wait for its operation: a repeated try does not double it (3.3.5)."""
        operation = await self._post(method, "compute", path, body, {"requestId": str(uuid.uuid4())})
        clock = self._caller.clock
        end = clock.monotonic() + CHANGE_S
        scope = path.removeprefix("/compute/v1/").split("/")
        within = "/".join(scope[:3] if scope[2] == "global" else scope[:4])
        at = f"/compute/v1/{within}/operations/{operation['name']}"
        while operation.get("status") != "DONE":
            if clock.monotonic() > end:
                raise Transient(f"{method} is still under way after {CHANGE_S:.0f} s", method=method, resource=path)
            await clock.sleep(LOOK_S)
            operation = await self._get("compute.operations.get", "compute", at)
        errors = operation.get("error", {}).get("errors", [])
        if errors or operation.get("httpErrorStatusCode"):
            status = int(operation.get("httpErrorStatusCode", 0))
            raise classify(method, path, of_compute(errors, status, operation.get("httpErrorMessage", "")))


def identity(found: Mapping[str, Any], scopes: str) -> Identity:
    """A service account as Compute Engine or the TPU API shows it."""
    return Identity(found.get("email", ""), frozenset(found.get(scopes, ())))


def _roles(policy: Mapping[str, Any], member: str) -> frozenset[str]:
    """A member's roles that hold without a condition."""
    return frozenset(
        binding["role"]
        for binding in policy.get("bindings", [])
        if member in binding.get("members", []) and not binding.get("condition")
    )


def _global(project: str, kind: str, name: str) -> str:
    return f"/compute/v1/projects/{project}/global/{kind}/{name}"


def _regional(project: str, region: str, kind: str, name: str) -> str:
    return f"/compute/v1/projects/{project}/regions/{region}/{kind}/{name}"
