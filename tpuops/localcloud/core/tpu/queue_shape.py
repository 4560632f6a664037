"""The queued resource's document: what a request may say, which nodes it stands for, and until when it waits.

Facts: google-cloud.md 2.6. Changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tpuops.facts.catalogue import Accelerator
from tpuops.localcloud.core.draw import parse_timestamp, timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.tpu import shape
from tpuops.localcloud.core.world import Document

QUEUED_ID = re.compile(r"^[A-Za-z0-9_.~+%-]+$")
TIERS = ("spot", "guaranteed", "bestEffort", "reservationName", "provisioningModel", "runDuration")
ALPHA_FIELDS = ("bestEffort", "provisioningModel", "runDuration", "trafficConfig")
"""What only v2alpha1 knows; there a multislice has `multiNodeParams`, in v2 `multisliceParams`."""
MOST_SLICES = 256


def is_spot(body: Mapping[str, Any]) -> bool:
    """Whether the nodes may be taken away: by tier, never by a node's own scheduling."""
    return "spot" in body or "bestEffort" in body or body.get("provisioningModel") == "SPOT"


def takes_preemptible_quota(body: Mapping[str, Any]) -> bool:
    """Flex-start uses the preemptible quota as well (google-cloud.md 2.5)."""
    return is_spot(body) or body.get("provisioningModel") == "FLEX_START"


def nodes_of(call: Call, queued_id: str, body: Mapping[str, Any]) -> tuple[list[Document], list[Accelerator]]:
    """The node documents the request stands for, with their slices. Raises the service's refusals."""
    if not QUEUED_ID.match(queued_id):
        raise shape.bad(call, f'Invalid queued resource ID "{queued_id}".')
    specs = (body.get("tpu") or {}).get("nodeSpec") or []
    _check_fields(call, body, specs)
    if not specs:
        raise shape.bad(call, "tpu.node_spec must be specified.")
    if sum(key in body for key in ("spot", "guaranteed", "bestEffort")) > 1:
        raise shape.bad(call, "only one tier may be specified.")
    shown, slices = [], []
    for spec in specs:
        accelerator = _slice(call, spec)
        for name in _names(call, queued_id, spec):
            shown.append(_node(call, name, accelerator, body, spec))
            slices.append(accelerator)
    return shown, slices


def _check_fields(call: Call, body: Mapping[str, Any], specs: list[Mapping[str, Any]]) -> None:
    """Raise where the request has fields of the other version of the API, as it refuses every unknown one."""
    several = "multisliceParams" if shape.is_alpha(call) else "multiNodeParams"
    unknown = [f"{field} at queued_resource" for field in ALPHA_FIELDS if field in body and not shape.is_alpha(call)]
    unknown += [f"{several} at queued_resource.tpu.node_spec[{at}]" for at, spec in enumerate(specs) if several in spec]
    if unknown:
        name, _, place = unknown[0].partition(" at ")
        raise refuse("bad-json", problem=f"Unknown name \"{name}\" at '{place}': Cannot find field.")


def document(call: Call, name: str, body: Mapping[str, Any]) -> Document:
    """The queued resource as the API shows it at first."""
    specs = [{**spec, "node": _plain(spec["node"])} for spec in body["tpu"]["nodeSpec"]]
    shown: Document = {"name": name, "createTime": timestamp(call.now), "tpu": {"nodeSpec": specs}}
    shown.update({key: body[key] for key in (*TIERS, "queueingPolicy") if key in body})
    return {**shown, "state": state("CREATING", "USER")}


def state(name: str, initiator: str, error: Mapping[str, Any] | None = None) -> Document:
    """The nested state, with the data field that belongs to it; waiting has none."""
    shown: Document = {"state": name, "stateInitiator": initiator}
    if name != "WAITING_FOR_RESOURCES":
        shown[f"{name.lower()}Data"] = {"error": dict(error)} if error else {}
    return shown


def window(call: Call, body: Mapping[str, Any]) -> tuple[float, float | None]:
    """From when, and until when, the request may be filled: epoch seconds. Raises where the policy is malformed."""
    policy = body.get("queueingPolicy") or {}
    interval = policy.get("validInterval") or {}
    try:
        after = _at(
            call.now, policy.get("validAfterDuration"), policy.get("validAfterTime") or interval.get("startTime")
        )
        until = _at(call.now, policy.get("validUntilDuration"), policy.get("validUntilTime") or interval.get("endTime"))
    except ValueError as problem:
        raise shape.bad(call, f"queueing_policy is malformed: {problem}.") from problem
    if until is not None and until <= max(call.now, after or 0.0):
        raise shape.bad(call, "queueing_policy ends before it begins.")
    return after or call.now, until


def seconds(duration: object) -> float:
    """A protobuf duration such as `21600s`. Raises ValueError."""
    return float(str(duration).removesuffix("s"))


def _at(now: float, duration: object, time: str | None) -> float | None:
    if duration:
        return now + seconds(duration)
    return parse_timestamp(time) if time else None


def _slice(call: Call, spec: Mapping[str, Any]) -> Accelerator:
    node = spec.get("node") or {}
    parent = str(spec.get("parent") or "")
    if parent.rpartition("/")[2] != call.params["zone"]:
        raise shape.bad(call, f'node_spec.parent "{parent}" must be the queued resource\'s own location.')
    if not node.get("runtimeVersion"):
        raise shape.bad(call, "runtime_version must be specified.")
    return shape.accelerator_of(call, call.params["zone"], node)


def _names(call: Call, queued_id: str, spec: Mapping[str, Any]) -> list[str]:
    several = spec.get("multisliceParams") or spec.get("multiNodeParams")
    if bool(several) == bool(spec.get("nodeId")):
        raise shape.bad(call, "node_spec needs either node_id or multislice_params.")
    if not several:
        return [str(spec["nodeId"])]
    count = int(several.get("nodeCount") or 0)
    if not 2 <= count <= MOST_SLICES:
        raise shape.bad(call, f"node_count must be between 2 and {MOST_SLICES}.")
    return [f"{several.get('nodeIdPrefix') or queued_id}-{number}" for number in range(count)]


def _node(
    call: Call, node_id: str, accelerator: Accelerator, body: Mapping[str, Any], spec: Mapping[str, Any]
) -> Document:
    given = _plain(spec["node"])
    shape.check_names(call, node_id, given.get("labels") or {})
    parent = f"projects/{call.params['project']}/locations/{call.params['zone']}"
    name = f"{parent}/nodes/{node_id}"
    if call.world.get("tpu.node", name) is not None:
        raise refuse("tpu.exists", name=name)
    shown = shape.document(call, name, accelerator, given)
    shown["schedulingConfig"] = {"spot": True} if is_spot(body) else {}
    if not spec.get("nodeId"):
        shown["multisliceNode"] = True
    return shown


def _plain(node: Mapping[str, Any]) -> Document:
    """A node's own scheduling says nothing here: the tier does."""
    return {key: value for key, value in node.items() if key != "schedulingConfig"}
