"""Queued resources: the methods that clients call. What becomes of one afterwards is in queue_life.py.

Which verb is allowed in which state is data (states.py).
"""

from __future__ import annotations

from typing import Any

from tpuops.localcloud.core.draw import parse_timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.tpu import operations, queue_life, queue_shape, quota, requests, shape, transitions
from tpuops.localcloud.core.tpu.places import known_zone, shown_page
from tpuops.localcloud.core.tpu.queue_life import KIND
from tpuops.localcloud.core.tpu.states import QUEUE_VERBS
from tpuops.localcloud.core.world import Document


def create(call: Call) -> Answer:
    """POST .../queuedResources?queuedResourceId=Q[&requestId=U&validateOnly=true]."""
    again = requests.repeated(call)
    if again is not None:
        return again
    known_zone(call)
    body = call.body()
    queued_id = call.query.get("queuedResourceId") or ""
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/queuedResources/{queued_id}"
    if call.world.get(KIND, name) is not None:
        raise refuse("tpu.exists", name=name)
    nodes, slices = queue_shape.nodes_of(call, queued_id, body)
    after, until = queue_shape.window(call, body)
    quota.check(call, slices[0], queue_shape.takes_preemptible_quota(body), len(slices))
    shown = queue_shape.document(call, name, body)
    if call.flag("validateOnly"):
        return operations.finished(call, "create", name, "QueuedResource", shown)
    for node in nodes:
        node["queuedResource"] = name
    queue: Document = {
        "shown": shown,
        "plan": nodes,
        "nodes": [],
        "after": after,
        "until": until,
        "queue_s": call.queue_s,
        "failure": dict(call.failure or {}),
        **_run(call, body),
        "busy": "",
    }
    call.world.put(KIND, name, queue)
    call.failure = None  # a late failure is the queued resource's, not the operation's (google-cloud.md 2.6)
    if until is not None:
        call.scene.later(until - call.now, "queue.expire", queue=name)
    return requests.noted(call, _admit(call, "create", name, "queue.accept"))


def get(call: Call) -> Answer:
    """GET .../queuedResources/Q."""
    known_zone(call)
    shown: Document = _existing(call)["shown"]
    return shown


def listing(call: Call) -> Answer:
    """GET .../queuedResources; the zone `-` means all zones."""
    prefix = f"projects/{call.params['project']}/locations/"
    if call.params["zone"] != "-":
        prefix += f"{known_zone(call)}/queuedResources/"
    return shown_page(call, "queuedResources", call.world.items(KIND, prefix))


def delete(call: Call) -> Answer:
    """DELETE .../queuedResources/Q[?force=true]: with `force` its nodes go first, in every state."""
    again = requests.repeated(call)
    if again is not None:
        return again
    queue = _existing(call)
    name, state = queue["shown"]["name"], queue["shown"]["state"]["state"]
    if state == "DELETING":
        return call.world.get(operations.KIND, queue["busy"]) or {"name": queue["busy"]}
    if not call.flag("force") and state not in QUEUE_VERBS["delete"]:
        raise refuse("tpu.queue-alive", name=name, state=state, eid=call.scene.draw.eid())
    queue_life.forget_plans(call.scene, name)
    queue_life.give_up_creation(call.scene, name)
    queue_life.move(call.scene, queue, "DELETING", "USER")
    forced = call.flag("force")
    operation = _admit(call, "delete", name, "queue.delete", before=state, force=forced)
    if forced and not call.failure:
        for node in queue_life.nodes_of(call.scene, queue):
            transitions.doom(call.scene, node, operation["name"])
    return requests.noted(call, operation)


def reset(call: Call) -> Answer:
    """POST .../queuedResources/Q:reset: its nodes go, and it queues again from the start."""
    queue = _existing(call)
    name, state = queue["shown"]["name"], queue["shown"]["state"]["state"]
    if state not in QUEUE_VERBS["reset"]:
        raise refuse("tpu.state", verb="reset", state=state, eid=call.scene.draw.eid())
    queue_life.forget_plans(call.scene, name)
    queue_life.drop_nodes(call.scene, queue)
    queue.update(queue_s=0.0, failure={}, until=None)
    queue_life.move(call.scene, queue, "ACCEPTED", "USER")
    call.scene.later(queue_life.latency(call.scene, "accepted"), "queue.wait", queue=name)
    return _admit(call, "reset", name, "queue.reset")


def _run(call: Call, body: Document) -> Document:
    """How long flex-start nodes live (`run_s`), or until when (`ends`): seven days at most (google-cloud.md 2.6)."""
    if body.get("provisioningModel") != "FLEX_START":
        return {"run_s": 0.0, "ends": None}
    asked = body.get("runDuration") or {}
    try:
        end = parse_timestamp(asked["terminationTime"]) if asked.get("terminationTime") else None
        run_s = queue_shape.seconds(asked.get("maxRunDuration") or "604800s") if end is None else end - call.now
    except ValueError as problem:
        raise shape.bad(call, "run_duration is malformed.") from problem
    if not 0 < run_s <= 7 * 24 * 3600:
        raise shape.bad(call, "run_duration must be at most 7 days.")
    return {"run_s": run_s, "ends": end}


def _existing(call: Call) -> Document:
    name = f"projects/{call.params['project']}/locations/{call.params['zone']}/queuedResources/{call.params['queued']}"
    queue = call.world.get(KIND, name)
    if queue is None:
        raise refuse("tpu.absent", name=name)
    return queue


def _admit(call: Call, verb: str, name: str, action: str, **facts: Any) -> Document:
    operation = operations.begin(call, verb, name, action=action, **facts)
    queue = call.world.get(KIND, name)
    assert queue is not None
    call.world.put(KIND, name, {**queue, "busy": operation["name"]})
    return operation
