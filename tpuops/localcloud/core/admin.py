"""The cloud's own paths below `/_cloud/`: status, request log, faults, reset. For tests and `rehearse`; not logged."""

from __future__ import annotations

import json

from tpuops.localcloud.core import machines, script, strikes
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call


def status(call: Call) -> Answer:
    """GET /_cloud/status: what there is, by name, with its state."""
    world = call.world
    running = [machine for _, machine in world.items("machine") if machine["running"]]
    nodes = [{"name": name, "state": node["shown"]["state"]} for name, node in world.items("tpu.node")]
    instances = [{"name": key, "status": shown["status"]} for key, shown in world.items("compute.instance")]
    process = world.get("cloud", "process") or {}
    return {
        **process,
        "nodes": nodes,
        "instances": instances,
        "buckets": [name for name, _ in world.items("storage.bucket")],
        "machines": [
            {"id": machine["id"], "address": machine["address"], "booted": bool(machine.get("booted"))}
            for machine in running
        ],
    }


def requests(call: Call) -> Answer:
    """GET /_cloud/requests?after=N: the request log, oldest first."""
    after = int(call.query["after"]) if call.query.get("after", "").isdigit() else 0
    return {"requests": [entry for _, entry in call.world.items("request") if entry["n"] > after]}


def faults(call: Call) -> Answer:
    """GET /_cloud/faults: each fault with the time it fired, or null."""
    return {"faults": script.shown(call.world)}


def add_faults(call: Call) -> Answer:
    """POST /_cloud/faults: append a script."""
    try:
        script.load(call.world, json.loads(call.request.body), call.now)
    except ValueError as problem:
        raise refuse("cloud.argument", problem=problem) from problem
    strikes.tell_watchers(call.scene)
    return {"faults": script.shown(call.world)}


def reset(call: Call) -> Answer:
    """POST /_cloud/reset: everything is forgotten except the seed's counters; machines and disks go."""
    machines.remove(call.scene, [key for key, _ in call.world.items("machine")])
    call.world.clear(but=("cloud", "cloud.requests"))
    call.world.drop("cloud", "progress")
    call.world.drop("cloud", "access")
    call.world.drop("cloud", "constraints")
    return {}
