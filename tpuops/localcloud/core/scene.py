"""What a service may see and touch while it acts: the world, the time, the seed, the profile and the event list.

A `Call` is a scene with one request in it. Nothing here knows any service.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuops.localcloud.core.draw import Draw
from tpuops.localcloud.core.events import Event
from tpuops.localcloud.core.profile import Profile
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.wire import Reply, Request
from tpuops.localcloud.core.world import Document, World


@dataclass(slots=True)
class Scene:
    """The state of affairs at `now` (epoch seconds); `events` collects what the machines must do."""

    world: World
    draw: Draw
    profile: Profile
    now: float
    subnet: str = "127.77.0"
    events: list[Event] = field(default_factory=list)

    def later(self, delay_s: float, action: str, **facts: Any) -> None:
        """Have the named action done `delay_s` from now with these facts; survives a restart."""
        at = self.now + delay_s
        counter = self.world.get("cloud", "timers") or {"made": 0}
        counter["made"] += 1
        self.world.put("cloud", "timers", counter)
        self.world.put("timer", f"{counter['made']:012d}", {"at": at, "action": action, **facts})

    def cancel(self, action: str, **facts: Any) -> list[Document]:
        """Take back timers of that action whose facts include these; returns them."""
        found = [
            (key, timer)
            for key, timer in self.world.items("timer")
            if timer["action"] == action and all(timer.get(name) == value for name, value in facts.items())
        ]
        for key, _ in found:
            self.world.drop("timer", key)
        return [timer for _, timer in found]


Action = Callable[[Scene, Document], None]


@dataclass(slots=True)
class Call:
    """One request being answered.

    `params` come from the path (decoded), `query` as given, `failure` is the late failure a fault script wants for the
    operation that this call starts ({"code": 8, "message": ...}), `queue_s` how long a
    script has its request wait, `unreachable` the zones that a script hides from a list over all zones.
    """

    scene: Scene
    request: Request
    method: str
    params: Mapping[str, str]
    failure: Mapping[str, Any] | None = None
    queue_s: float = 0.0
    unreachable: Sequence[str] = ()

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters."""
        return self.request.query

    @property
    def world(self) -> World:
        """The scene's world."""
        return self.scene.world

    @property
    def now(self) -> float:
        """Epoch seconds."""
        return self.scene.now

    @property
    def latency(self) -> float:
        """Seconds the operation of this call takes."""
        return self.scene.profile.latency(self.method)

    def body(self) -> dict[str, Any]:
        """The JSON body; an empty one is an empty object. Raises the service's parse error."""
        if not self.request.body:
            return {}
        try:
            document = json.loads(self.request.body)
        except ValueError as problem:
            raise refuse("bad-json", problem=problem) from problem
        if not isinstance(document, dict):
            raise refuse("bad-json", problem="Root element must be a message.")
        return document

    def flag(self, name: str) -> bool:
        """A boolean query parameter; gcloud writes True, Google's libraries true."""
        return self.query.get(name, "").lower() == "true"


Answer = Reply | Mapping[str, Any]
Method = Callable[[Call], Answer]
