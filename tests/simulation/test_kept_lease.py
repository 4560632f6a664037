"""`up` on a machine that keeps the lease of its run: given back where the machine still stands, and nowhere else."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from tests.simulation.cast import Cast, Entrance
from tests.simulation.lives import CURRENT
from tests.simulation.loop import sleep
from tests.simulation.play import staged
from tests.simulation.sweep import TEAM, Scene
from tests.simulation.troubles import NODE
from tpuops.cloud.port import ObjectStore
from tpuops.stages import holders, lease
from tpuops.switch import Keeper

KEEPER = Keeper("r1", NODE, "ada", "2026-11-20T09:00:00+00:00", 2e9, 60.0, "delete", "keep")
LAST, LOST_S = 3, 60.0
ENTRANCES = (Entrance(0, "up", "desk"), Entrance(20, "relabel", "desk"), Entrance(40, "up", "desk"))
TAKEN = {"on": {"after_s": LOST_S - 10, "machine": NODE}, "do": {"preempt": True}}


@pytest.mark.parametrize("faults", [(), (TAKEN,)], ids=["it stands", "it is taken between the two looks"])
def test_the_lease_goes_back_to_the_machine_that_kept_it_unless_up_made_it_anew(
    faults: tuple[dict[str, Any], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, kept = lease.take, dict[str, Any]()

    async def taken(store: ObjectStore, name: str, me: holders.Holder, *more: Any) -> lease.Lease:
        """The last one comes to a lease that a machine keeps, and takes long for it."""
        if CURRENT.get().pid == LAST:
            left = holders.kept_by_machine(replace(me, keeper=asdict(KEEPER)))
            await store.write(name, left.data(), if_generation=0)
            await sleep(LOST_S - 40)
        return await take(store, name, me, *more)

    class Told(Cast):
        async def _controllers(self) -> None:
            await super()._controllers()
            kept.update(self.document("lease.json") or {})

    monkeypatch.setattr(lease, "take", taken)
    schedule = Scene("kept", "up", faults=faults, labels=TEAM).schedule()
    history = staged(lambda: Told(schedule, ENTRANCES), 1)
    assert history.problems == []
    assert [end.exit_code for end in history.ends] == [0, 0, 0]
    assert [node["state"] for node in history.nodes.values()] == ["READY"]
    assert [(who, event.kind) for who, event in history.events].count((LAST, "node.replace")) == len(faults)
    assert kept.get("keeper") == (None if faults else asdict(KEEPER))
