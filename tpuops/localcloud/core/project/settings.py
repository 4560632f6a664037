"""What a test says of a project's surroundings, for all projects alike. Until it does, nothing is limited or missing.

`POST /_cloud/project`, all fields optional:
    networks: [default]         the only networks there are
    accounts: [e-mail]          the only service accounts there are, beside those made later
    quotas: {TPUV6EPerProjectPerZoneForTPUAPI: 8, CPUS: {us-central1: 2}}      by the ids that the services list,
                                everywhere or by zone or region; what is not named is unlimited
    clock_ahead_s: 600          how far the services' clock, as replies tell it, is ahead of this machine's
"""

from __future__ import annotations

import json
from typing import Any

from tpuops.localcloud.core.refusals import Refusal
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document, World

FIELDS = {"networks", "accounts", "quotas", "clock_ahead_s"}


def of(world: World) -> Document:
    """What was said; absent fields limit nothing."""
    return world.get("cloud.project", "settings") or {}


def limit(world: World, quota: str, *places: str) -> int | None:
    """What a quota allows in a zone or region; None where nothing limits it."""
    said: Any = of(world).get("quotas", {}).get(quota)
    if isinstance(said, dict):
        said = next((said[place] for place in places if place in said), None)
    return None if said is None else int(said)


def show(call: Call) -> Answer:
    """GET /_cloud/project."""
    return of(call.world)


def put(call: Call) -> Answer:
    """POST /_cloud/project: set the fields given."""
    wanted = json.loads(call.request.body or b"{}")
    if not isinstance(wanted, dict) or set(wanted) - FIELDS:
        raise Refusal(400, "INVALID_ARGUMENT", "invalid", f"project: knows {sorted(FIELDS)}")
    return call.world.put("cloud.project", "settings", {**of(call.world), **wanted})
