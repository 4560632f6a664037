"""An end that nobody was told of is shown by the next command with what it cost, where that was known."""

from __future__ import annotations

import pytest

from tests.simulation.lives import Doom
from tests.simulation.sweep import Scene, lived

DELETED = "storage.objects.delete"
"""The lease is given back, and nothing else is deleted: the record is closed by then, and nobody was told."""


@pytest.mark.parametrize("same_host", [True, False], ids=["the same host", "another host"])
def test_the_cost_of_a_run_whose_end_was_not_told_is_told_with_it(same_host: bool) -> None:
    scene = Scene("run", "run")
    whole = lived(scene).end.document
    swept = lived(scene, Doom(1, "send", same_host, method=DELETED))
    again = swept.end.document
    assert swept.killed and not swept.told_then
    assert "run.untold" in {event.kind for _, event in swept.history.events}
    assert len(swept.history.started) == 1
    assert whole["cost_usd"] > 0
    assert again["cost_usd"] == pytest.approx(whole["cost_usd"], rel=0.01)
