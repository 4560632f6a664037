"""`down` where a deletion fails, hangs, finds nothing, or would hit what is not ours: the others are not stopped by it.

What is left is named with exit 6, what is gone is gone, and the next `down` finishes. What is not ours is not touched.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.cast import Acted, Cast, Entrance
from tests.simulation.history import History
from tests.simulation.play import INSTANCES, PARENT, _json, staged
from tests.simulation.properties import p4_what_is_not_ours_is_untouched, standing
from tests.simulation.sweep import Scene
from tests.simulation.troubles import NODE, VM
from tpuops.localcloud.core.wire import Request

METHODS = {"tpu.nodes.delete": NODE, "compute.instances.delete": VM}
FAILING: dict[str, tuple[dict[str, Any], int]] = {
    "refused": ({"error": {"http": 403, "status": "PERMISSION_DENIED", "message": "no"}}, 9),
    "broken for long": ({"error": {"http": 503, "message": "backendError"}}, 60),
    "lost replies": ({"lose_reply": True}, 2),
    "late replies": ({"delay_s": 45.0}, 2),
    "admitted, fails late": ({"fail_operation": {"code": 13, "message": "An internal error has occurred."}}, 1),
    "admitted, fails late for ever": ({"fail_operation": {"code": 13, "message": "An internal error."}}, 60),
}
FOR_GOOD = {"refused", "broken for long", "admitted, fails late for ever"}
"""After these something is left, until a person or the service mends it."""


class Struck(Cast):
    """`up`, then trouble, then `down`; the trouble ends, and `down` is given again."""

    def __init__(self, faults: list[dict[str, Any]], meanwhile: list[Request]) -> None:
        super().__init__(Scene("down", "down").schedule(), (Entrance(0, "up", "desk"),))
        self.struck, self.meanwhile, self.left = faults, meanwhile, set[str]()

    async def _controllers(self) -> None:
        await self._entered(1, self.entrances[0])
        self.net.deliver(_json("POST", "/_cloud/faults", {"faults": self.struck}))
        for request in self.meanwhile:
            assert self.net.deliver(request).status == 200
        self.entrances = (*self.entrances, Entrance(0, "down", "desk"))
        await self._entered(2, self.entrances[1])
        self._take_stock()
        self.left = standing(self.history)
        for fault in [key for key, _ in self.net.core.world.items("fault")]:
            self.net.core.world.drop("fault", fault)
        self.entrances = (*self.entrances, Entrance(0, "down", "desk"))
        await self._entered(3, self.entrances[2])


def struck(faults: list[dict[str, Any]], meanwhile: list[Request] | None = None) -> tuple[History, set[str], Acted]:
    stages: list[Struck] = []

    def make() -> Struck:
        stages.append(Struck(faults, meanwhile or []))
        return stages[-1]

    history = staged(make, 1)
    return history, stages[0].left, Acted(history, stages[0].done, stages[0].entrances)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", FAILING)
def test_one_failing_delete_never_stops_the_others_and_the_next_down_finishes(kind: str, method: str) -> None:
    deed, times = FAILING[kind]
    history, left, seen = struck([{"on": {"method": method}, "do": deed}] * times)
    first, second = seen.end(2), seen.end(3)
    wanted = {METHODS[method]} if kind in FOR_GOOD else set()
    assert left == wanted
    assert (first.exit_code, set(first.document["remains"])) == (6 if wanted else 0, wanted)
    assert (second.exit_code, second.document["remains"]) == (0, [])
    assert standing(history) == set()
    assert list(p4_what_is_not_ours_is_untouched(history)) == []


@pytest.mark.parametrize("kind", ["refused", "broken for long", "admitted, fails late for ever"])
def test_where_every_delete_fails_both_are_named(kind: str) -> None:
    deed, times = FAILING[kind]
    _, left, seen = struck([{"on": {"method": method}, "do": deed} for method in METHODS for _ in range(times)])
    assert left == {NODE, VM}
    assert (seen.end(2).exit_code, set(seen.end(2).document["remains"])) == (6, {NODE, VM})
    assert seen.end(3).exit_code == 0


@pytest.mark.parametrize("path", [f"{PARENT}/{NODE}", f"{INSTANCES}/{VM}"])
def test_what_somebody_deleted_meanwhile_is_no_failure(path: str) -> None:
    _, left, seen = struck([], [Request("DELETE", path)])
    assert left == set()
    assert seen.end(2).exit_code == 0


def test_what_was_given_another_owner_s_labels_meanwhile_stays() -> None:
    body = {"labels": {"tpuops": "v1", "tpuops-env": "sim", "tpuops-owner": "bob"}}
    relabelled = _json("PATCH", f"{PARENT}/{NODE}", body)._replace(query={"updateMask": "labels"})
    history, left, seen = struck([], [relabelled])
    assert left == set(), "the VM is ours and goes"
    assert seen.end(2).exit_code in {0, 7}
    asked = [made for number in (2, 3) for made in seen.by(number) if made.method == "tpu.nodes.delete"]
    assert asked == []
    assert list(p4_what_is_not_ours_is_untouched(history)) == []
