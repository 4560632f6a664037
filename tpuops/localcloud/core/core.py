"""The embedded cloud's one entrance: a request and the time in, a reply and events out.

It finds the method, lets the fault script have its say, keeps the request log, and lets time pass. Services do the
rest. Nothing here is specific to a service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tpuops.localcloud.core import constraints, machines, script, strikes
from tpuops.localcloud.core.draw import Draw, project_number
from tpuops.localcloud.core.events import Answered, Booted, Crashed, Event, LogLine, Notice
from tpuops.localcloud.core.identity import access
from tpuops.localcloud.core.profile import INSTANT, Profile
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import Refusal, error_reply, refuse, scripted
from tpuops.localcloud.core.routes import Route, service_of
from tpuops.localcloud.core.scene import Call, Scene
from tpuops.localcloud.core.table import ACTIONS, ROUTES
from tpuops.localcloud.core.wire import Reply, Request, json_reply, linked
from tpuops.localcloud.core.world import Document, World

REQUESTS_KEPT = 20_000
LOG = frozenset({"request", "cloud.requests"})
"""The kinds of documents that the request log is made of: no reply promises that they are kept."""
MAX_CRASHES = 3


UPLOADED = re.compile(rb'"name"\s*:\s*("(?:[^"\\]|\\.)*")')


class Core:
    """The services over one world.

    Args:
        world: what there is; the caller persists its dirt before a reply leaves.
        faults: a fault script to begin with, or None.
        profile: latencies and strictness.
        seed: of every invented id; ignored where the world already remembers one.
        subnet: the first three numbers of the loopback net that machines get addresses from.
        now: the time a script given here counts from, epoch seconds. A script the world knows is not loaded again.
    """

    def __init__(
        self,
        world: World,
        faults: Any = None,
        profile: Profile = INSTANT,
        seed: int = 0,
        subnet: str = "127.77.0",
        now: float = 0.0,
    ) -> None:
        self.world = world
        self._profile = profile
        self._draw = Draw(world, seed)
        self._subnet = subnet
        if faults is not None:
            script.load_once(world, faults, now)

    def handle(self, request: Request, now: float) -> tuple[Reply, list[Event]]:
        """Answer one request."""
        scene = self._scene(now)
        self._pass_time(scene, now)
        found = ROUTES.find(request.verb, request.path)
        if found is None:
            refusal = refuse("no-method", verb=request.verb, path=request.path)
            reply = error_reply(service_of(request.path), refusal)
            self._log(scene, request, None, "", reply)
            return reply, scene.events
        route, params = found
        if params.get("project", "").isdigit():
            params["project"] = _named(self.world, params["project"])
        elif "project" in params:
            _remember(self.world, params["project"])
        reply = self._answer(Call(scene, request, route.method, params), route)
        return settings.dated(self.world, linked(reply, request.base), now), scene.events

    def advance(self, now: float) -> list[Event]:
        """Let time pass: operations end, faults strike."""
        scene = self._scene(now)
        self._pass_time(scene, now)
        return scene.events

    def next_due(self, now: float = 0.0) -> float | None:
        """When `advance` has something to do next, epoch seconds; faults that lack a target are not waited for."""
        timer, fault = self.world.view("timer", _first), script.next_time(self.world, now)
        if timer is None or fault is None:
            return fault if timer is None else timer[0]
        return min(timer[0], fault)

    def tell(self, notice: Notice, now: float) -> list[Event]:
        """Take in what happened on a machine."""
        scene = self._scene(now)
        if isinstance(notice, Booted):
            if machines.booted(scene, notice) is not None:
                strikes.tell_watchers(scene, only=notice.id)
        elif isinstance(notice, LogLine):
            _reached(scene, notice)
        elif isinstance(notice, Answered):
            strikes.answered(scene, notice)
        else:
            _crashed(scene, notice)
        self._pass_time(scene, now)
        return scene.events

    def resume(self, now: float) -> list[Event]:
        """After a start of the program: machines that should run boot again, as after a host's failure."""
        scene = self._scene(now)
        machines.boot(scene, [key for key, machine in self.world.items("machine") if machine["running"]])
        self._pass_time(scene, now)
        return scene.events

    def _scene(self, now: float) -> Scene:
        return Scene(self.world, self._draw, self._profile, now, self._subnet)

    def _pass_time(self, scene: Scene, now: float) -> None:
        while True:
            due = self.world.view("timer", _first)
            if due is None or due[0] > now:
                break
            scene.now, key = due
            timer = self.world.get("timer", key)
            self.world.drop("timer", key)
            if timer is not None:
                ACTIONS[timer["action"]](scene, timer)
        scene.now = now
        for key, fault in script.timed(self.world, now):
            if "access" in fault["do"]:
                access.change(self.world, fault["do"]["access"])
                script.fire(self.world, key, now)
            else:
                _strike(scene, key, fault, "")

    def _answer(self, call: Call, route: Route) -> Reply:
        if route.service == "cloud":
            return self._run(call, route)
        resource = _resource(call)
        if call.request.asked_at is not None:
            return self._finished(call, route, resource, self._run(call, route))
        hit = script.at_call(self.world, route.method, resource)
        deed: Mapping[str, Any] = hit[1]["do"] if hit else {}
        if "access" in deed:
            access.change(self.world, deed["access"])
        call.unreachable = tuple(deed.get("unreachable", ()))
        call.queue_s = float(deed.get("queue_s", 0.0))
        if "fail_operation" in deed:
            call.failure = deed["fail_operation"]
        reply = self._struck(call, route, deed)
        if hit and not _came_to_nothing(deed, reply):
            self._fired(call, hit[0], hit[1])
        return self._finished(call, route, resource, reply)

    def _finished(self, call: Call, route: Route, resource: str, reply: Reply) -> Reply:
        if reply.hold_until is None:
            self._log(call.scene, call.request, route, resource, reply)
        return reply

    def _struck(self, call: Call, route: Route, deed: Mapping[str, Any]) -> Reply:
        if "drop_request" in deed:
            return Reply(0, drop=True)
        if "error" in deed:
            return error_reply(route.service, scripted(deed["error"]))
        reply = self._run(call, route)
        if "lose_reply" in deed:
            return reply._replace(drop=True)
        for kind in script.STREAM_DEEDS & deed.keys():
            how = deed[kind]
            if len(reply.body) > how["after_bytes"]:
                return reply._replace(cut_at=int(how["after_bytes"]), pause_s=float(how.get("for_s", 0.0)))
        return reply._replace(delay_s=float(deed["delay_s"])) if "delay_s" in deed else reply

    def _run(self, call: Call, route: Route) -> Reply:
        try:
            access.check(call, mutating=route.mutating)
            constraints.check(call)
            answer = route.function(call)
        except Refusal as refusal:
            return error_reply(route.service, refusal)
        return answer if isinstance(answer, Reply) else json_reply(answer)

    def _fired(self, call: Call, key: str, fault: Document) -> None:
        if not set(fault["do"]) <= script.MACHINE_DEEDS:
            script.fire(self.world, key, call.now)
            return
        name = call.params.get("node") or call.params.get("instance") or call.query.get("nodeId") or ""
        if "preempt" in fault["do"] and call.method.startswith("tpu.nodes.") and name:
            place = (call.params["project"], call.params["zone"], name)
            if strikes.preempt_node(call.scene, *place, fault["do"]["preempt"]):
                script.fire(self.world, key, call.now)
            return
        _strike(call.scene, key, fault, name)

    def _log(self, scene: Scene, request: Request, route: Route | None, resource: str, reply: Reply) -> None:
        counter = self.world.get("cloud.requests", "all") or {"seen": 0}
        counter["seen"] += 1
        number = counter["seen"]
        entry = {
            "n": number,
            "at": scene.now,
            "service": route.service if route else service_of(request.path),
            "method": route.method if route else "",
            "verb": request.verb,
            "path": request.path,
            "resource": resource,
            "status": reply.status,
            "mutating": route.mutating if route else False,
        }
        if reply.drop or (reply.cut_at is not None and not reply.pause_s):
            entry["lost"] = True
        self.world.put("cloud.requests", "all", counter)
        self.world.put("request", f"{number:012d}", entry)
        self.world.drop("request", f"{number - REQUESTS_KEPT:012d}")


def _came_to_nothing(deed: Mapping[str, Any], reply: Reply) -> bool:
    """Whether a deed left the call as it was: a late failure of one that was refused, a cut in too short an answer."""
    if "fail_operation" in deed:
        return reply.status >= 400
    return not script.STREAM_DEEDS.isdisjoint(deed) and reply.cut_at is None


def _first(timers: Mapping[str, Document]) -> tuple[float, str] | None:
    """The timer that is due first: when, and its key."""
    return min(((timer["at"], key) for key, timer in timers.items()), default=None)


def _resource(call: Call) -> str:
    """The name of what the call is about: the ids in its path, and for a creation the id it brings."""
    parts = [value for name, value in call.params.items() if name != "upload"]
    brought = call.query.get("nodeId") or call.query.get("name") or _uploaded(call)
    return "/".join([*parts, brought] if brought else parts)


def _uploaded(call: Call) -> str:
    """The object's name where an upload tells it in the first part of its body."""
    found = UPLOADED.search(call.request.body[:4096]) if call.method == "storage.objects.insert" else None
    return str(json.loads(found[1])) if found else ""


def _named(world: World, number: str) -> str:
    """The id of a project that was named by its number, where a call named it by its id before."""
    return str((world.get("cloud", "projects") or {}).get(number, number))


def _remember(world: World, project: str) -> None:
    known = world.get("cloud", "projects") or {}
    if project not in known.values():
        world.put("cloud", "projects", {**known, project_number(project): project})


def _strike(scene: Scene, key: str, fault: Document, name: str) -> None:
    """Have a machine fault hit its target; without one it stays unfired and waits."""
    machine = strikes.target(scene, fault, name)
    if machine is None:
        return
    script.fire(scene.world, key, scene.now)
    strikes.strike(scene, machine, fault["do"], key)


def _reached(scene: Scene, notice: LogLine) -> None:
    armed = script.armed_step(scene.world)
    machine = scene.world.get("machine", notice.id)
    if armed is None or machine is None or not machine["running"] or armed[0] != notice.fault_index:
        return
    if notice.step < int(armed[1]["on"]["step"]):
        return
    key = f"{armed[0]:06d}"
    script.fire(scene.world, key, scene.now)
    strikes.strike(scene, machine, armed[1]["do"], key)
    strikes.tell_watchers(scene)


def _crashed(scene: Scene, notice: Crashed) -> None:
    """A machine that died by itself boots again; one that keeps dying is left alone, unreachable."""
    machine = scene.world.get("machine", notice.id)
    if machine is None or not machine["running"]:
        return
    crashes = 1 if machine.get("booted") else int(machine.get("crashes", 0)) + 1
    machine.update(crashes=crashes, booted=False)
    scene.world.put("machine", notice.id, machine)
    if crashes <= MAX_CRASHES:
        scene.later(0.5 * scene.profile.scale, "machine.boot", machine=notice.id)
