"""Identity-Aware Proxy's TCP forwarding: who may be carried to which port of which machine. The carrying is elsewhere.

The instance of a TPU worker goes by the name that its guest attributes publish (google-cloud.md 6.7).
"""

from __future__ import annotations

from tpuops.localcloud.core.scene import Answer, Call

ROOT = "/iap/v4"
CONNECT = f"{ROOT}/connect"
NO_INSTANCE, NO_BACKEND = 4047, 4003
"""WebSocket close codes: the instance is not found; nothing takes the connection there."""


def connect(call: Call) -> Answer:
    """GET iap/v4/connect?project=&zone=&instance=&interface=nic0&port=22: the address to connect to."""
    for _, machine in call.world.items("machine"):
        meant = machine["project"] == call.query.get("project") and machine["zone"] == call.query.get("zone")
        if meant and machine["running"] and call.query.get("instance") in {machine["hostname"], _name(machine)}:
            return {"address": machine["address"], "port": int(call.query.get("port") or 22)}
    return {"close": NO_INSTANCE, "reason": "Failed to lookup instance"}


def _name(machine: dict[str, object]) -> object:
    """An instance goes by its name; a TPU's name names no instance."""
    return machine["name"] if machine["kind"] == "vm" else None
