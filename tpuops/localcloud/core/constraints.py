"""Organisation policies that matter to machines and buckets: which constraints hold, and what they refuse.

None holds until `POST /_cloud/constraints` says so: {"compute.vmExternalIpAccess": true, ...}; a constraint that lists
values takes the allowed ones. Texts are recorded (wordings.py) but for guest attributes and TPU nodes, where the same
words stand in the service's own shape (unverified).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.refusals import Refusal, refuse
from tpuops.localcloud.core.scene import Answer, Call

EXTERNAL_IP = "compute.vmExternalIpAccess"
GUEST_ATTRIBUTES = "compute.disableGuestAttributesAccess"
LOCATIONS = "gcp.resourceLocations"
OS_LOGIN = "compute.requireOsLogin"
PUBLIC_ACCESS = "storage.publicAccessPrevention"
UNIFORM_ACCESS = "storage.uniformBucketLevelAccess"
LISTS = frozenset({LOCATIONS})
KNOWN = frozenset({EXTERNAL_IP, GUEST_ATTRIBUTES, OS_LOGIN, PUBLIC_ACCESS, UNIFORM_ACCESS}) | LISTS


def show(call: Call) -> Answer:
    """GET /_cloud/constraints: those that hold."""
    return call.world.get("cloud", "constraints") or {}


def put(call: Call) -> Answer:
    """POST /_cloud/constraints: these hold from now on, and no others."""
    try:
        stated = json.loads(call.request.body)
        sound = all(isinstance(value, list if name in LISTS else bool) for name, value in stated.items())
    except (ValueError, AttributeError):
        stated, sound = {}, False
    if not sound or set(stated) - KNOWN:
        problem = f"an object of {sorted(KNOWN)}: true or false, for {sorted(LISTS)} a list of locations"
        raise refuse("cloud.argument", problem=problem)
    return call.world.put("cloud", "constraints", stated)


def check(call: Call) -> None:
    """Refuse what a constraint forbids. Raises `Refusal`."""
    hold = call.world.get("cloud", "constraints") or {}
    for name, rule in RULES.get(call.method, {}).items() if hold else ():
        if hold.get(name):
            rule(call, hold[name])


def _place(call: Call, allowed: list[str]) -> None:
    """`zone` lies in an allowed region, or a bucket in an allowed location; all case is one."""
    zone = call.params.get("zone", "")
    location = zone or str(call.body().get("location") or "US")
    wanted = {location.lower(), zone.rsplit("-", 1)[0]}
    if wanted.isdisjoint(value.lower().removeprefix("in:").removesuffix("-locations") for value in allowed):
        if call.method.startswith("storage"):
            raise refuse("constraint.storage-location", location=location.lower(), name=LOCATIONS)
        raise _violated(call, LOCATIONS)


def _instance_address(call: Call, _: object) -> None:
    body = call.body()
    if any(interface.get("accessConfigs") for interface in body.get("networkInterfaces", [])):
        name = f"projects/{call.params['project']}/zones/{call.params['zone']}/instances/{body.get('name')}"
        raise refuse("constraint.address", name=name, number=project_number(call.params["project"]))


def _nodes(call: Call) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The nodes that a call asks for, by name: one of its own, or those of a queued resource."""
    body = call.body()
    for spec in (body.get("tpu") or {}).get("nodeSpec") or []:
        several = spec.get("multisliceParams") or spec.get("multiNodeParams") or {}
        yield str(spec.get("nodeId") or several.get("nodeIdPrefix")), spec.get("node") or {}
    if call.method.startswith("tpu.nodes."):
        yield str(call.query.get("nodeId") or call.params.get("node")), body


def _node_address(call: Call, _: object) -> None:
    for name, node in _nodes(call):
        networks = [node.get("networkConfig") or {}, *(node.get("networkConfigs") or [])]
        if any(network.get("enableExternalIps") for network in networks):
            path = f"projects/{call.params['project']}/zones/{call.params['zone']}/instances/{name}"
            raise refuse("constraint.node-address", name=path, number=project_number(call.params["project"]))


def _opened_address(call: Call, _: object) -> None:
    mask = call.query.get("updateMask", "")
    if "enable_external_ips" in mask or "enableExternalIps" in mask:
        _node_address(call, _)


def _node_login(call: Call, _: object) -> None:
    for _name, node in _nodes(call):
        _check_login(call, node.get("metadata") or {})


def _guest_attributes(call: Call, _: object) -> None:
    raise _violated(call, GUEST_ATTRIBUTES)


def _os_login(call: Call, _: object) -> None:
    """Whoever writes metadata may not switch OS Login off."""
    written = call.body().get("metadata", call.body())
    _check_login(call, {item.get("key"): item.get("value") for item in written.get("items", [])})


def _check_login(call: Call, metadata: Mapping[str, Any]) -> None:
    if str(metadata.get("enable-oslogin", "TRUE")).upper() != "TRUE":
        raise _violated(call, OS_LOGIN)


def _violated(call: Call, name: str) -> Refusal:
    """The refusal in the shape of the call's service."""
    return refuse("constraint.node" if call.method.startswith("tpu.") else "constraint.violated", name=name)


def _access(call: Call) -> Mapping[str, Any]:
    found = call.body().get("iamConfiguration", {})
    return found if isinstance(found, Mapping) else {}


def _uniform(call: Call, _: object) -> None:
    stated = _access(call).get("uniformBucketLevelAccess")
    if stated is None and call.method == "storage.buckets.patch":
        return
    if not (stated or {}).get("enabled"):
        raise _violated(call, UNIFORM_ACCESS)


def _public(call: Call, _: object) -> None:
    if _access(call).get("publicAccessPrevention", "enforced") != "enforced":
        raise _violated(call, PUBLIC_ACCESS)


Rule = Callable[[Call, Any], None]
RULES: Mapping[str, Mapping[str, Rule]] = {
    "compute.instances.insert": {LOCATIONS: _place, EXTERNAL_IP: _instance_address, OS_LOGIN: _os_login},
    "compute.instances.setMetadata": {OS_LOGIN: _os_login},
    "compute.projects.setCommonInstanceMetadata": {OS_LOGIN: _os_login},
    "compute.instances.getGuestAttributes": {GUEST_ATTRIBUTES: _guest_attributes},
    "tpu.nodes.create": {LOCATIONS: _place, EXTERNAL_IP: _node_address, OS_LOGIN: _node_login},
    "tpu.nodes.patch": {EXTERNAL_IP: _opened_address, OS_LOGIN: _node_login},
    "tpu.queuedResources.create": {LOCATIONS: _place, EXTERNAL_IP: _node_address, OS_LOGIN: _node_login},
    "tpu.nodes.getGuestAttributes": {GUEST_ATTRIBUTES: _guest_attributes},
    "storage.buckets.insert": {LOCATIONS: _place, UNIFORM_ACCESS: _uniform, PUBLIC_ACCESS: _public},
    "storage.buckets.patch": {UNIFORM_ACCESS: _uniform, PUBLIC_ACCESS: _public},
}
"""What each constraint refuses, by method."""
