"""Routers with their address translation, as records. A network that was merely asked for has one in every region."""

from __future__ import annotations

from tpuops.localcloud.core.compute import network, operations, shape
from tpuops.localcloud.core.compute.links import last, link
from tpuops.localcloud.core.compute.pages import shown_page
from tpuops.localcloud.core.draw import project_number, timestamp
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

KIND = "compute.router"


def listing(call: Call) -> Answer:
    """GET .../regions/R/routers."""
    return shown_page(call, "compute#routerList", sorted(_routers(call).items()))


def get(call: Call) -> Answer:
    """GET .../regions/R/routers/X."""
    return _existing(call)


def insert(call: Call) -> Answer:
    """POST .../regions/R/routers."""
    body = call.body()
    name, project, region = str(body.get("name") or ""), call.params["project"], call.params["region"]
    if not shape.NAME.match(name):
        raise shape.invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
    path = f"projects/{project}/regions/{region}/routers/{name}"
    if name in _routers(call):
        raise refuse("compute.exists", name=path)
    if last(str(body.get("network") or "")) not in network.known_networks(call):
        raise shape.invalid("resource.network", str(body.get("network")), "The referenced network cannot be found.")
    router = _router(call, name, last(body["network"]), list(body.get("nats") or []))
    call.world.put(KIND, f"{project}/{region}/{name}", {**router, "creationTimestamp": timestamp(call.now)})
    return operations.admit(call, "insert", path, router["id"])


def delete(call: Call) -> Answer:
    """DELETE .../regions/R/routers/X."""
    shown = _existing(call)
    project, region = call.params["project"], call.params["region"]
    call.world.put(KIND, f"{project}/{region}/{shown['name']}", {"gone": True})
    path = f"projects/{project}/regions/{region}/routers/{shown['name']}"
    return operations.admit(call, "delete", path, shown["id"])


def _existing(call: Call) -> Document:
    found = _routers(call).get(call.params["router"])
    if found is None:
        path = f"regions/{call.params['region']}/routers/{call.params['router']}"
        raise refuse("compute.absent", name=f"projects/{call.params['project']}/{path}")
    return found


def _routers(call: Call) -> dict[str, Document]:
    prefix = f"{call.params['project']}/{call.params['region']}/"
    everything = {"name": "nat", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}
    asked = [] if settings.of(call.world).get("networks") is not None else network.known_networks(call)
    found = {f"{name}-router": _router(call, f"{name}-router", name, [everything]) for name in asked[1:]}
    found |= {key.removeprefix(prefix): router for key, router in call.world.items(KIND, prefix)}
    return {name: router for name, router in found.items() if not router.get("gone")}


def _router(call: Call, name: str, of: str, nats: list[Document]) -> Document:
    project, region = call.params["project"], call.params["region"]
    path = f"projects/{project}/regions/{region}/routers/{name}"
    shown: Document = {
        "kind": "compute#router",
        "id": project_number(path),
        "name": name,
        "network": link(f"projects/{project}/global/networks/{of}"),
        "region": link(f"projects/{project}/regions/{region}"),
        "selfLink": link(path),
    }
    return {**shown, "nats": nats} if nats else shown
