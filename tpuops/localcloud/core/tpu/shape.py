"""The node document: what a create request may say, and what the service makes of it. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tpuops.facts import catalogue
from tpuops.facts.catalogue import Accelerator
from tpuops.localcloud.core.draw import default_account, timestamp
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.tpu import places
from tpuops.localcloud.core.world import Document

NODE_ID = re.compile(r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")
LABEL_KEY = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
LABEL_VALUE = re.compile(r"^[a-z0-9_-]{0,63}$")
CONFIG_TYPES = {2: "V2", 4: "V3", 7: "V4", 9: "V5LITE_POD", 10: "V5P", 11: "V6E"}
"""AcceleratorConfig.Type by its number in the proto: clients send either form (google-cloud.md 0.6)."""
NETWORK_FIELDS = ("enableExternalIps", "canIpForward", "queueCount")
LONGEST_DESCRIPTION = 512
DISK_MODES = {1: "READ_WRITE", 2: "READ_ONLY"}
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
PUBSUB = "https://www.googleapis.com/auth/pubsub"
INPUT_FIELDS = ("description", "labels", "metadata", "tags", "cidrBlock", "dataDisks", "shieldedInstanceConfig")


def bad(call: Call, problem: str) -> Exception:
    """The service's refusal of a malformed request."""
    return refuse("tpu.argument", problem=problem, eid=call.scene.draw.eid())


def is_alpha(call: Call) -> bool:
    """Whether the call came by v2alpha1."""
    return call.request.path.startswith("/v2alpha1/")


def check_names(call: Call, node_id: str, labels: Mapping[str, str]) -> None:
    """Raise where the node's id or its labels are not legal (google-cloud.md 2.8)."""
    if not NODE_ID.match(node_id):
        raise bad(call, f'Invalid node ID "{node_id}".')
    wrong = [key for key, value in labels.items() if not LABEL_KEY.match(key) or not LABEL_VALUE.match(str(value))]
    if wrong or len(labels) > 64:
        raise bad(call, f'Invalid label "{(wrong or ["(more than 64)"])[0]}".')


def accelerator_of(call: Call, zone: str, body: Mapping[str, Any]) -> Accelerator:
    """The slice asked for, by type or by topology; v2-8 where neither is given. Raises the recorded refusals."""
    if zone not in places.zones():
        raise refuse("tpu.zone", zone=zone, eid=call.scene.draw.eid())
    config = body.get("acceleratorConfig") or {}
    asked = body.get("acceleratorType") or ("" if config.get("topology") else "v2-8")
    name = asked or _type_of(config)
    known = catalogue.accelerator(name)
    if known is None or name not in catalogue.offered(zone) or settings.lacks(call.world, name):
        raise refuse("tpu.type", type=name, zone=zone, eid=call.scene.draw.eid())
    return known


def document(call: Call, name: str, accelerator: Accelerator, body: Mapping[str, Any]) -> Document:
    """The node as the API shows it while it is being created."""
    shown: Document = {
        "name": name,
        "id": call.scene.draw.number(),
        "state": "CREATING",
        "acceleratorType": accelerator.type,
        "acceleratorConfig": {"type": accelerator.config_type, "topology": accelerator.topology},
        "runtimeVersion": body["runtimeVersion"],
        "apiVersion": "V2_ALPHA1" if is_alpha(call) else "V2",
        "createTime": timestamp(call.now),
        "schedulingConfig": {key: True for key, on in (body.get("schedulingConfig") or {}).items() if on is True},
        **_networks(call, body),
        "serviceAccount": _account(call.params["project"], body.get("serviceAccount") or {}),
    }
    if len(str(body.get("description") or "")) > LONGEST_DESCRIPTION:
        raise bad(call, f"description must have at most {LONGEST_DESCRIPTION} characters.")
    shown.update({field: body[field] for field in INPUT_FIELDS if body.get(field)})
    if body.get("dataDisks"):
        shown["dataDisks"] = [{**disk, "mode": _mode(disk.get("mode"))} for disk in body["dataDisks"]]
    return shown


def is_spot(shown: Mapping[str, Any]) -> bool:
    """Whether the node may be taken away."""
    scheduling = shown.get("schedulingConfig", {})
    return bool(scheduling.get("spot") or scheduling.get("preemptible"))


def _mode(asked: Any) -> str:
    """A disk's mode by its name, whether it came as name or as number."""
    return DISK_MODES.get(asked, str(asked or "READ_WRITE"))


def _type_of(config: Mapping[str, Any]) -> str:
    family = CONFIG_TYPES.get(config.get("type", ""), str(config.get("type", "")))
    for name in catalogue.accelerator_types():
        known = catalogue.accelerator(name)
        if known and (known.config_type, known.topology) == (family, config.get("topology")):
            return name
    return f"{family.lower()}-{config.get('topology')}"


def networks_of(shown: Mapping[str, Any]) -> list[Document]:
    """The networks that each worker of a node is in."""
    return list(shown.get("networkConfigs") or [shown["networkConfig"]])


def _networks(call: Call, body: Mapping[str, Any]) -> Document:
    """One network, or several; never both fields."""
    one, several = body.get("networkConfig"), body.get("networkConfigs")
    if one and several:
        raise bad(call, "network_config and network_configs exclude each other.")
    if several:
        return {"networkConfigs": [_network(call.params["project"], network) for network in several]}
    return {"networkConfig": _network(call.params["project"], one or {})}


def _network(project: str, asked: Mapping[str, Any]) -> Document:
    network = str(asked.get("network") or "default")
    full = network if "/" in network else f"projects/{project}/global/networks/{network}"
    shown: Document = {"network": full}
    if asked.get("subnetwork"):
        shown["subnetwork"] = asked["subnetwork"]
    return {**shown, **{field: asked[field] for field in NETWORK_FIELDS if asked.get(field)}}


def _account(project: str, asked: Mapping[str, Any]) -> Document:
    """Empty e-mail: the default account; empty scopes: all APIs; the service adds pubsub (google-cloud.md 2.8)."""
    scopes = list(asked.get("scope") or [CLOUD_PLATFORM])
    email = asked.get("email") or default_account(project)
    return {"email": email, "scope": scopes if PUBSUB in scopes else [*scopes, PUBSUB]}
