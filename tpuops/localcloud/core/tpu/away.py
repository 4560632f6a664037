"""Nodes that Google takes out of service: repaired, restarted, reimaged or hidden for a while, or ended for good.

Happens by fault script only. Which state may follow which is data (states.py); what each one means for a real node is
documented in a line each (facts: google-cloud.md 2.2), so that all of them look alike here: the machines are down.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.tpu import transitions
from tpuops.localcloud.core.tpu.states import AWAY
from tpuops.localcloud.core.world import Document

ENDS = frozenset({"READY", "UNKNOWN"})
"""How a repair may end; everything else ends in READY."""
KNOWN = AWAY | {"TERMINATED"}
_ONWARD: Mapping[str, str] = {"HIDING": "HIDDEN", "HIDDEN": "UNHIDING"}


def take_out(scene: Scene, name: str, state: str, for_s: float, then: str) -> None:
    """A ready node goes into `state`, one of KNOWN, for `for_s` seconds a step (0: for good), and ends in `then`."""
    node = scene.world.get(transitions.KIND, name)
    if node is None or node["shown"]["state"] != "READY":
        return
    if state == "TERMINATED":
        transitions.lose(scene, node, state)
        return
    _go(scene, node, state, {"for_s": for_s, "then": then})


def passed(scene: Scene, timer: Document) -> None:
    """Its time in that state is over; one that was deleted meanwhile is left alone."""
    node = scene.world.get(transitions.KIND, timer["node"])
    if node is None or (node["shown"]["id"], node["shown"]["state"]) != (timer["id"], timer["state"]):
        return
    onward = _ONWARD.get(timer["state"], timer["then"])
    if onward == "READY":
        transitions.come_back(scene, node)
    else:
        _go(scene, node, onward, timer)


def _go(scene: Scene, node: Document, state: str, how: Document) -> None:
    transitions.leave(scene, node, state)
    if how["for_s"] and state != "UNKNOWN":
        about = {"node": node["shown"]["name"], "id": node["shown"]["id"], "state": state}
        scene.later(how["for_s"], "tpu.pass", **about, for_s=how["for_s"], then=how["then"])


ACTIONS: Mapping[str, Action] = {"tpu.pass": passed}
