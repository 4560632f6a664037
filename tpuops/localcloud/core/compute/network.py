"""The network as far as gcloud asks: one network with a subnetwork a region, firewall rules as records, no addresses.

Imitated: a firewall rule is kept and shown, and stops nothing.
"""

from __future__ import annotations

from tpuops.localcloud.core.compute import catalogue, operations, shape
from tpuops.localcloud.core.compute.links import last, link
from tpuops.localcloud.core.compute.pages import by_scope, shown_page
from tpuops.localcloud.core.draw import project_number, timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

FIREWALL = "compute.firewall"
ALWAYS = {
    # The rules that every default network begins with.
    "default-allow-icmp": [{"IPProtocol": "icmp"}],
    "default-allow-internal": [
        {"IPProtocol": "tcp", "ports": ["0-65535"]},
        {"IPProtocol": "udp", "ports": ["0-65535"]},
    ],
    "default-allow-ssh": [{"IPProtocol": "tcp", "ports": ["22"]}],
}


def subnetworks_get(call: Call) -> Answer:
    """GET .../regions/R/subnetworks/default."""
    if call.params["subnetwork"] != "default" or call.params["region"] not in catalogue.regions():
        path = f"regions/{call.params['region']}/subnetworks/{call.params['subnetwork']}"
        raise refuse("compute.absent", name=f"projects/{call.params['project']}/{path}")
    return _subnetwork(call.params["project"], call.params["region"])


def subnetworks_list(call: Call) -> Answer:
    """GET .../regions/R/subnetworks."""
    found = [("default", _subnetwork(call.params["project"], call.params["region"]))]
    return shown_page(call, "compute#subnetworkList", found)


def subnetworks_aggregated(call: Call) -> Answer:
    """GET projects/P/aggregated/subnetworks."""
    project = call.params["project"]
    scopes = {f"regions/{region}": [("default", _subnetwork(project, region))] for region in catalogue.regions()}
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
    network = last(str(body.get("network") or "default"))
    if network != "default":
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
    rules = {name: _rule(project, name, {"allowed": allowed}) for name, allowed in ALWAYS.items()}
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
        "network": link(f"projects/{project}/global/networks/default"),
        "selfLink": link(f"projects/{project}/global/firewalls/{name}"),
    }


def _subnetwork(project: str, region: str) -> Document:
    index = catalogue.regions().index(region) if region in catalogue.regions() else 0
    return {
        "kind": "compute#subnetwork",
        "id": project_number(f"{project}/{region}/default"),
        "name": "default",
        "network": link(f"projects/{project}/global/networks/default"),
        "region": link(f"projects/{project}/regions/{region}"),
        "ipCidrRange": f"10.{128 + index * 2}.0.0/20",
        "gatewayAddress": f"10.{128 + index * 2}.0.1",
        "privateIpGoogleAccess": False,
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "selfLink": link(f"projects/{project}/regions/{region}/subnetworks/default"),
    }
