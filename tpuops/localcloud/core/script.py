"""Fault scripts: an ordered list, each fault firing once, and what has fired so far.

A script is a list of faults, or {"progress": {"file": GLOB, "pattern": REGEX}, "faults": [...]}; a fault is
{"on": ..., "do": ...}. `on` has one of
    method: tpu.nodes.create (or a pattern), with nth: 2 (the first matching call from the second on) and
            resource: "*/n1" (the ids in the path, joined by slashes)
    step: 80        a machine's progress reached it; step faults go in order, each armed when the one before has fired
    after_s: 3      seconds since the script was loaded; it waits on for a machine to hit
and for what strikes machines `machine`: a pattern on the machine's id or its node's or instance's name. `do` has one of
    error: {http, status, message, reason, retry_after_s}      fail_operation: {code, message}      delay_s: 2.5
        (retry_after_s: whole seconds, told in the header Retry-After)
    queue_s: 60 (a queued resource waits that long for resources; with fail_operation it fails in the end)
    unreachable: [us-central1-a] (zones that a list over all zones leaves out, and names)
    lose_reply: true (carried out, not answered)      drop_request: true (neither)
    broken_stream: {after_bytes: 262144} (the answer's body ends there, and the connection with it)
    stalled_stream: {after_bytes: 262144, for_s: 5} (it pauses there; an answer that is no longer can suffer neither)
    kill: train.py      hang: train.py (it makes no step and does not end)
    device_fault: {message}      device_held: train.py (it dies and leaves a child that keeps the accelerator)
    ssh_drop: {for_s}      ssh_delay: {delay_s}      key_delay: {for_s} (no login key is in force for that long)
    disk_full: {for_s}, or true      slow_disk: {delay_s}      slow_network: {delay_s, bytes_per_s}
        (these three with for_s, or until the machine is stopped and started)
    preempt: true, or {notice_s: 5}: the machine's metadata says so first; {gone: true}: no node is left to delete
    maintenance: {notice_s: 5}      unhealthy: {health: UNHEALTHY_TENSORFLOW, for_s: 5} (0: for good); perhaps
        {symptom: HBM_OUT_OF_MEMORY}
    node_state: {state: REPAIRING, for_s: 5}: Google has the node away for that long a step (0: for good); also
        RESTARTING, REIMAGING, HIDING (and HIDDEN, UNHIDING), TERMINATED; a repair may end in {then: UNKNOWN}
    access: {enforce: true, ...} (identity/access.py; with `method`, that call is already under the new rules)

A machine that could not do as ordered (no such process, say) leaves its fault unfired, with the reason as `missed`.

This module says which fault is due. What one does is carried out in core.py (calls) and strikes.py (machines). The
state lives in the world, so that a restart fires nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tpuops.localcloud.core.draw import fingerprint
from tpuops.localcloud.core.tpu.states import AWAY
from tpuops.localcloud.core.world import Document, World

KIND = "fault"
TRIGGERS = frozenset({"method", "step", "after_s"})
CONDITIONS = TRIGGERS | {"nth", "machine", "resource"}
STREAM_DEEDS = frozenset({"broken_stream", "stalled_stream"})
CALL_DEEDS = STREAM_DEEDS | {
    *("error", "fail_operation", "lose_reply", "drop_request", "delay_s"),
    *("queue_s", "unreachable"),
}
OF_NODES = frozenset({"unhealthy", "node_state"})
"""What only a TPU node can suffer."""
TAKING_DEEDS = frozenset({"preempt", "maintenance"}) | OF_NODES
ORDERS: Mapping[str, tuple[str, ...]] = {
    "kill": (),
    "hang": (),
    "device_fault": ("message",),
    "device_held": (),
    "ssh_drop": ("for_s",),
    "ssh_delay": ("delay_s",),
    "key_delay": ("for_s",),
    "disk_full": (),
    "slow_disk": ("delay_s",),
    "slow_network": ("delay_s",),
}
"""What a running machine is ordered to do, with the fields each deed must have."""
MACHINE_DEEDS = TAKING_DEEDS | ORDERS.keys()
ONLY_AT: Mapping[str, frozenset[str]] = {
    "queue_s": frozenset({"tpu.queuedResources.create"}),
    "unreachable": frozenset({"tpu.nodes.list", "tpu.queuedResources.list"}),
}
"""The only methods that can suffer it; any other that a pattern names is passed over."""
READING = frozenset(
    {"get", "list", "aggregatedList", "getFromFamily", "getGuestAttributes", "getSerialPortOutput"}
    | {"generateServiceIdentity"}
)
"""Methods of the TPU and Compute services that start no operation, so that none can fail late."""
CLOUD_DEEDS = frozenset({"access"})
DEFAULT_PROGRESS = {"file": "**/train.log", "pattern": r"step=(\d+)"}


class BadScript(ValueError):
    """The script says something that no fault can mean; the text names the fault by its number, from 1."""


def load(world: World, script: Any, now: float) -> None:
    """Append a script (a list, or an object with `faults` and `progress`) to what is loaded. Raises BadScript."""
    faults, progress = _parts(script)
    start = world.count(KIND)
    for number, fault in enumerate(faults):
        problem = _problem(fault)
        if problem:
            raise BadScript(f"fault {number + 1}: {problem}")
    if progress is not None:
        world.put("cloud", "progress", {**DEFAULT_PROGRESS, **progress})
    for number, fault in enumerate(faults):
        state = {"on": fault["on"], "do": fault["do"], "seen": 0, "loaded_at": now, "fired_at": None}
        world.put(KIND, f"{start + number:06d}", state)


def load_once(world: World, script: Any, now: float) -> None:
    """Load a script unless the same one was loaded this way before: a restart of the program fires nothing twice."""
    mark = {"loaded": fingerprint(script)}
    if world.get("cloud", "script") != mark:
        load(world, script, now)
        world.put("cloud", "script", mark)


def shown(world: World) -> list[Document]:
    """Every fault with the time it fired, or None, and perhaps what kept it from doing anything."""
    told = ("on", "do", "fired_at", "missed")
    return [{name: fault[name] for name in told if name in fault} for _, fault in world.items(KIND)]


def at_call(world: World, method: str, resource: str) -> tuple[str, Document] | None:
    """Count a call and give the first fault that waits for it."""
    chosen = None
    for key, fault in world.view(KIND, _at_calls):
        on = fault["on"]
        if not fnmatchcase(method, str(on["method"])):
            continue
        if not _can_hit(fault["do"], method, resource):
            continue
        if not fnmatchcase(resource, str(on.get("resource", "*"))):
            continue
        fault["seen"] += 1
        world.put(KIND, key, fault)
        if chosen is None and fault["seen"] >= int(on.get("nth", 1)):
            chosen = (key, fault)
    return chosen


def armed_step(world: World) -> tuple[int, Document] | None:
    """The step fault that is next in order, with its index: later ones wait for it."""
    for key, fault in world.items(KIND):
        if waits(fault) and "step" in fault["on"]:
            return int(key), fault
    return None


def timed(world: World, now: float) -> list[tuple[str, Document]]:
    """The unfired faults whose time has come."""
    return [(key, fault) for at, key, fault in world.view(KIND, _timed) if at <= now]


def next_time(world: World, now: float) -> float | None:
    """When the next timed fault comes due, after `now`."""
    return min((at for at, _, _ in world.view(KIND, _timed) if at > now), default=None)


def fire(world: World, key: str, now: float) -> None:
    """Note that it fired."""
    fault = world.get(KIND, key)
    assert fault is not None
    world.put(KIND, key, {**fault, "fired_at": now})


def miss(world: World, key: str, reason: str) -> None:
    """Take the firing back: nothing happened, and it will not be tried again."""
    fault = world.get(KIND, key)
    if fault is not None:
        world.put(KIND, key, {**fault, "fired_at": None, "missed": reason})


def waits(fault: Document) -> bool:
    """Whether a fault has neither fired nor missed."""
    return fault["fired_at"] is None and "missed" not in fault


def watch_order(world: World) -> Document | None:
    """What machines must look out for, or None where no step fault is pending."""
    armed = armed_step(world)
    if armed is None:
        return None
    index, fault = armed
    progress = world.get("cloud", "progress") or DEFAULT_PROGRESS
    return {"order": "watch", "fault_index": index, "step": int(fault["on"]["step"]), **progress}


def matches(machine: Mapping[str, Any], pattern: str) -> bool:
    """Whether a machine is meant by a fault's `machine` pattern: by its id or the name of its node or instance."""
    return fnmatchcase(machine["id"], pattern) or fnmatchcase(machine["name"], pattern)


def _at_calls(faults: Mapping[str, Document]) -> list[tuple[str, Document]]:
    """The faults that wait for a call, in their order."""
    return [(key, fault) for key, fault in sorted(faults.items()) if waits(fault) and "method" in fault["on"]]


def _timed(faults: Mapping[str, Document]) -> list[tuple[float, str, Document]]:
    """The faults that wait for a time, in their order, each with its time."""
    waiting = [(key, fault) for key, fault in sorted(faults.items()) if waits(fault) and "after_s" in fault["on"]]
    return [(float(fault["loaded_at"]) + float(fault["on"]["after_s"]), key, fault) for key, fault in waiting]


def _parts(script: Any) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
    if isinstance(script, Mapping):
        progress = script.get("progress")
        faults = script.get("faults", [])
        if set(script) - {"progress", "faults"} or not isinstance(faults, list):
            raise BadScript("a script is a list of faults, or an object with `progress` and `faults`")
        if progress is not None and (not isinstance(progress, Mapping) or set(progress) - {"file", "pattern"}):
            raise BadScript("progress: has `file` and `pattern`")
        return faults, progress
    if not isinstance(script, list):
        raise BadScript("a script is a list of faults, or an object with `progress` and `faults`")
    return script, None


def _problem(fault: Any) -> str:
    if not isinstance(fault, Mapping) or set(fault) != {"on", "do"}:
        return "has exactly `on` and `do`"
    on, deed = fault["on"], fault["do"]
    if not isinstance(on, Mapping) or not isinstance(deed, Mapping):
        return "`on` and `do` are objects"
    if set(on) - CONDITIONS:
        return f"`on` knows no {sorted(set(on) - CONDITIONS)}"
    if len(TRIGGERS & set(on)) != 1:
        return f"`on` has exactly one of {sorted(TRIGGERS)}"
    if len(deed) != 1 or not set(deed) <= CALL_DEEDS | MACHINE_DEEDS | CLOUD_DEEDS:
        return f"`do` has exactly one of {sorted(CALL_DEEDS | MACHINE_DEEDS | CLOUD_DEEDS)}"
    return _misplaced(on, deed) or _lacking(*next(iter(deed.items())))


def _misplaced(on: Mapping[str, Any], deed: Mapping[str, Any]) -> str:
    """What the deed could never happen to, where `on` is as it is."""
    kind = next(iter(deed))
    if kind in CLOUD_DEEDS and "step" in on:
        return f"`{kind}` strikes no machine: `on` needs `method` or `after_s`"
    if kind in CALL_DEEDS and "method" not in on:
        return f"`{kind}` happens to a call: `on` needs `method`"
    if kind in ONLY_AT and not any(fnmatchcase(method, str(on["method"])) for method in ONLY_AT[kind]):
        return f"`{kind}` happens only to {', '.join(sorted(ONLY_AT[kind]))}"
    return ""


def _can_hit(deed: Mapping[str, Any], method: str, resource: str) -> bool:
    """Whether a call can suffer the deed: one that nothing could come of has not fired."""
    if "fail_operation" in deed:
        service, collection, verb = method.split(".", 2)
        return service in {"tpu", "compute"} and not collection.lower().endswith("operations") and verb not in READING
    if "unreachable" in deed and "/-" not in resource:
        return False
    return all(method in ONLY_AT[kind] for kind in deed if kind in ONLY_AT)


def _badly_placed(value: Any) -> str:
    known = sorted(AWAY | {"TERMINATED"})
    given = value if isinstance(value, Mapping) else {}
    state, then, for_s = given.get("state"), given.get("then", "READY"), given.get("for_s", 0)
    ends = {"READY", "UNKNOWN"} if state == "REPAIRING" else {"READY"}
    if state not in known or then not in ends or set(given) - {"state", "for_s", "then"}:
        return f"`node_state` needs `state` (one of {', '.join(known)}), and perhaps `for_s`; a repair may have `then`"
    return "" if isinstance(for_s, int | float) and for_s >= 0 else "`node_state`: for_s must be a number of seconds"


def _badly_cut(kind: str, value: Any) -> str:
    fields = {"after_bytes", "for_s"} if kind == "stalled_stream" else {"after_bytes"}
    given = value if isinstance(value, Mapping) else {}
    numbers = all(isinstance(number, int | float) and number >= 0 for number in given.values())
    return "" if set(given) == fields and numbers else f"`{kind}` needs {', '.join(sorted(fields))}: numbers"


def _lacking(kind: str, value: Any) -> str:
    """What an order's fields lack; kinds that are no orders judge their values when they strike."""
    if kind == "node_state":
        return _badly_placed(value)
    if kind in STREAM_DEEDS:
        return _badly_cut(kind, value)
    fields = ORDERS.get(kind, ())
    if kind in {"kill", "hang", "device_held"} and not (isinstance(value, str) and value):
        return f"`{kind}` names the process: a part of its command line"
    given = value if isinstance(value, Mapping) else {}
    lacking = [name for name in fields if name not in given]
    if lacking:
        return f"`{kind}` needs {', '.join(lacking)}"
    numbers = [name for name in given if name.endswith("_s") and kind in ORDERS]
    wrong = [name for name in numbers if not isinstance(given[name], int | float) or given[name] < 0]
    return f"`{kind}`: {', '.join(wrong)} must be a number of seconds" if wrong else ""
