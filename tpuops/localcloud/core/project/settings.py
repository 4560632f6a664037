"""What a test says of a project's surroundings, for all projects alike. Until it does, nothing is limited or missing.

`POST /_cloud/project`, all fields optional:
    networks: [default]         the only networks there are
    accounts: [e-mail]          the only service accounts there are, beside those made later
    quotas: {TPUV6EPerProjectPerZoneForTPUAPI: 8, CPUS: {us-central1: 2}}      by the ids that the services list,
                                everywhere or by zone or region; what is not named is unlimited
    lacks: [v3-8, e2-small]     accelerator types, runtimes and machine types that are not offered any more
    clock_ahead_s: 600          how far the services' clock, as replies tell it, is ahead of this machine's
"""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.wire import Reply
from tpuops.localcloud.core.world import Document, World

FIELDS = {"networks", "accounts", "quotas", "lacks", "clock_ahead_s"}


def of(world: World) -> Document:
    """What was said; absent fields limit nothing."""
    return world.get("cloud.project", "settings") or {}


def lacks(world: World, name: str) -> bool:
    """Whether a type is not offered any more."""
    return name in of(world).get("lacks", ())


def limit(world: World, quota: str, *places: str) -> int | None:
    """What a quota allows in a zone or region; None where nothing limits it."""
    said: Any = of(world).get("quotas", {}).get(quota)
    if isinstance(said, dict):
        said = next((said[place] for place in places if place in said), None)
    return None if said is None else int(said)


def dated(world: World, reply: Reply, now: float) -> Reply:
    """The reply with the time that the services' clock shows, where it differs from this machine's."""
    ahead = float(of(world).get("clock_ahead_s", 0.0))
    if not ahead:
        return reply
    return reply._replace(headers={**reply.headers, "Date": formatdate(now + ahead, usegmt=True)})


def show(call: Call) -> Answer:
    """GET /_cloud/project."""
    return of(call.world)


def put(call: Call) -> Answer:
    """POST /_cloud/project: set the fields given."""
    wanted = json.loads(call.request.body or b"{}")
    if not isinstance(wanted, dict) or set(wanted) - FIELDS:
        raise refuse("cloud.argument", problem=f"project: knows {sorted(FIELDS)}")
    return call.world.put("cloud.project", "settings", {**of(call.world), **wanted})
