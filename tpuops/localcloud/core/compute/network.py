"""Networks: `default` with a subnetwork a region, firewall rules as records, no addresses.

Imitated: a firewall rule is kept and shown, and stops nothing. Any other network is there once it was asked for, and a
subnetwork in the one that was asked for last, as its owner would have made them: with Private Google Access, a router
and a rule for SSH. `POST /_cloud/project` may name the only networks there are instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuops.localcloud.core.compute import catalogue, operations, shape
from tpuops.localcloud.core.compute.links import last, link
from tpuops.localcloud.core.compute.pages import by_scope, shown_page
from tpuops.localcloud.core.draw import project_number, timestamp
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

FIREWALL = "compute.firewall"
NETWORK = "compute.network"
SUBNETWORK = "compute.subnetwork"
DEFAULT = "default"
ALWAYS: Mapping[str, Document] = {
    # The rules that every default network begins with, behind the network's name.
    "allow-icmp": {"allowed": [{"IPProtocol": "icmp"}]},
    "allow-internal": {
        "allowed": [{"IPProtocol": "tcp", "ports": ["0-65535"]}, {"IPProtocol": "udp", "ports": ["0-65535"]}],
        "sourceRanges": ["10.128.0.0/9"],
    },
    "allow-ssh": {"allowed": [{"IPProtocol": "tcp", "ports": ["22"]}]},
}


def subnetworks_get(call: Call) -> Answer:
    """GET .../regions/R/subnetworks/S."""
    return _existing_subnetwork(call)


def set_private_access(call: Call) -> Answer:
    """POST .../regions/R/subnetworks/S/setPrivateIpGoogleAccess."""
    shown = _existing_subnetwork(call)
    project, region, name = (call.params[key] for key in ("project", "region", "subnetwork"))
    wanted = bool(call.body().get("privateIpGoogleAccess"))
    call.world.put(SUBNETWORK, f"{project}/{region}/{name}", {"network": last(shown["network"]), "private": wanted})
    path = f"projects/{project}/regions/{region}/subnetworks/{name}"
    return operations.admit(call, "setPrivateIpGoogleAccess", path, shown["id"])


def networks_get(call: Call) -> Answer:
    """GET projects/P/global/networks/N."""
    project, name = call.params["project"], call.params["network"]
    only = settings.of(call.world).get("networks")
    if name != DEFAULT and only is None:
        others = [key for key, _ in call.world.items(NETWORK, f"{project}/")]
        call.world.put(NETWORK, f"{project}/{name}", {"asked": len(others)})
    if name not in known_networks(call):
        raise refuse("compute.absent", name=f"projects/{project}/global/networks/{name}")
    return _network(project, name)


def networks_list(call: Call) -> Answer:
    """GET projects/P/global/networks."""
    project = call.params["project"]
    return shown_page(call, "compute#networkList", ((name, _network(project, name)) for name in known_networks(call)))


def known_networks(call: Call) -> list[str]:
    """The project's networks, those last that were asked for last."""
    only = settings.of(call.world).get("networks")
    if only is not None:
        return list(only)
    project = call.params["project"]
    made = sorted(call.world.items(NETWORK, f"{project}/"), key=lambda entry: entry[1]["asked"])
    return [DEFAULT, *(key.partition("/")[2] for key, _ in made)]


def check_named(call: Call, interfaces: Sequence[Mapping[str, Any]]) -> None:
    """Raise where an instance asks for a network that is not one of the only ones there are."""
    only = settings.of(call.world).get("networks")
    if only is None:
        return
    for index, interface in enumerate(interfaces):
        asked = str(interface.get("network") or ("" if interface.get("subnetwork") else DEFAULT))
        if asked and last(asked) not in only:
            field = f"resource.networkInterfaces[{index}].network"
            raise shape.invalid(field, asked, "The referenced network resource cannot be found.")


def subnetworks_list(call: Call) -> Answer:
    """GET .../regions/R/subnetworks."""
    found = [(DEFAULT, _subnetwork(call, call.params["project"], call.params["region"]))]
    return shown_page(call, "compute#subnetworkList", found)


def subnetworks_aggregated(call: Call) -> Answer:
    """GET projects/P/aggregated/subnetworks."""
    project = call.params["project"]
    scopes = {f"regions/{region}": [(DEFAULT, _subnetwork(call, project, region))] for region in catalogue.regions()}
    return by_scope(call, "compute#subnetworkAggregatedList", "subnetworks", scopes)


def addresses_aggregated(call: Call) -> Answer:
    """GET projects/P/aggregated/addresses: none are reserved."""
    scopes: dict[str, list[tuple[str, Document]]] = {f"regions/{region}": [] for region in catalogue.regions()}
    return by_scope(call, "compute#addressAggregatedList", "addresses", scopes)


def addresses_list(call: Call) -> Answer:
    """GET .../addresses: none are reserved."""
    return shown_page(call, "compute#addressList", [])


def firewalls_list(call: Call) -> Answer:
    """GET projects/P/global/firewalls."""
    return shown_page(call, "compute#firewallList", sorted(_rules(call).items()))


def firewalls_get(call: Call) -> Answer:
    """GET projects/P/global/firewalls/F."""
    return _existing(call)


def firewalls_insert(call: Call) -> Answer:
    """POST projects/P/global/firewalls."""
    body = call.body()
    name, project = str(body.get("name") or ""), call.params["project"]
    if not shape.NAME.match(name):
        raise shape.invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
    if name in _rules(call):
        raise refuse("compute.exists", name=f"projects/{project}/global/firewalls/{name}")
    if not body.get("allowed") and not body.get("denied"):
        raise refuse("compute.required", field="resource.allowed")
    network = last(str(body.get("network") or DEFAULT))
    if network not in known_networks(call):
        raise shape.invalid("resource.network", network, "The referenced network resource cannot be found.")
    rule = _rule(project, name, {**body, "creationTimestamp": timestamp(call.now)})
    call.world.put(FIREWALL, f"{project}/{name}", rule)
    return operations.admit(call, "insert", f"projects/{project}/global/firewalls/{name}", rule["id"])


def firewalls_patch(call: Call) -> Answer:
    """PATCH projects/P/global/firewalls/F: the fields given."""
    rule, name = _existing(call), call.params["firewall"]
    changed = _rule(call.params["project"], name, {**rule, **call.body()})
    call.world.put(FIREWALL, f"{call.params['project']}/{name}", changed)
    return operations.admit(call, "patch", f"projects/{call.params['project']}/global/firewalls/{name}", rule["id"])


def firewalls_delete(call: Call) -> Answer:
    """DELETE projects/P/global/firewalls/F."""
    rule, name = _existing(call), call.params["firewall"]
    call.world.put(FIREWALL, f"{call.params['project']}/{name}", {"gone": True})
    return operations.admit(call, "delete", f"projects/{call.params['project']}/global/firewalls/{name}", rule["id"])


def _rules(call: Call) -> dict[str, Document]:
    project = call.params["project"]
    rules = {
        f"{network}-{suffix}": _rule(project, f"{network}-{suffix}", {**given, "network": network})
        for network in known_networks(call)
        for suffix, given in ALWAYS.items()
    }
    rules.update({key.partition("/")[2]: rule for key, rule in call.world.items(FIREWALL, f"{project}/")})
    return {name: rule for name, rule in rules.items() if not rule.get("gone")}


def _existing(call: Call) -> Document:
    rule = _rules(call).get(call.params["firewall"])
    if rule is None:
        raise refuse(
            "compute.absent", name=f"projects/{call.params['project']}/global/firewalls/{call.params['firewall']}"
        )
    return rule


def _rule(project: str, name: str, given: Document) -> Document:
    return {
        "direction": "INGRESS",
        "priority": 1000,
        "sourceRanges": ["0.0.0.0/0"],
        "creationTimestamp": "2020-01-01T00:00:00.000-08:00",
        "disabled": False,
        **given,
        "kind": "compute#firewall",
        "id": project_number(f"{project}/{name}"),
        "name": name,
        "network": link(f"projects/{project}/global/networks/{last(str(given.get('network') or DEFAULT))}"),
        "selfLink": link(f"projects/{project}/global/firewalls/{name}"),
    }


def _existing_subnetwork(call: Call) -> Document:
    """The subnetwork of the call. Raises where there is none."""
    project, region, name = (call.params[key] for key in ("project", "region", "subnetwork"))
    stored = call.world.get(SUBNETWORK, f"{project}/{region}/{name}")
    others = [network for network in known_networks(call) if network != DEFAULT]
    if stored is None and name != DEFAULT and others and settings.of(call.world).get("networks") is None:
        stored = call.world.put(SUBNETWORK, f"{project}/{region}/{name}", {"network": others[-1], "private": True})
    if region not in catalogue.regions() or (stored is None and name != DEFAULT):
        raise refuse("compute.absent", name=f"projects/{project}/regions/{region}/subnetworks/{name}")
    return _subnetwork(call, project, region, name)


def _subnetwork(call: Call, project: str, region: str, name: str = DEFAULT) -> Document:
    index = catalogue.regions().index(region) if region in catalogue.regions() else 0
    stored = call.world.get(SUBNETWORK, f"{project}/{region}/{name}") or {"network": DEFAULT, "private": False}
    return {
        "kind": "compute#subnetwork",
        "id": project_number(f"{project}/{region}/{name}"),
        "name": name,
        "network": link(f"projects/{project}/global/networks/{stored['network']}"),
        "region": link(f"projects/{project}/regions/{region}"),
        "ipCidrRange": f"10.{128 + index * 2}.0.0/20",
        "gatewayAddress": f"10.{128 + index * 2}.0.1",
        "privateIpGoogleAccess": stored["private"],
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "selfLink": link(f"projects/{project}/regions/{region}/subnetworks/{name}"),
    }


def _network(project: str, name: str) -> Document:
    regions = catalogue.regions() if name == DEFAULT else ()
    return {
        "kind": "compute#network",
        "id": project_number(f"{project}/{name}"),
        "name": name,
        "autoCreateSubnetworks": name == DEFAULT,
        "subnetworks": [link(f"projects/{project}/regions/{region}/subnetworks/{name}") for region in regions],
        "routingConfig": {"routingMode": "REGIONAL"},
        "selfLink": link(f"projects/{project}/global/networks/{name}"),
    }
