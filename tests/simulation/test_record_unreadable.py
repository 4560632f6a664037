"""A command that can read nothing of the run says what stands and bills, and touches none of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.cast import Entrance, acted, machine_changes
from tests.simulation.sweep import Scene
from tests.simulation.troubles import NODE, TRANSIENT, VM

UNREADABLE = {"on": {"method": "storage.objects.get", "resource": "*/run.json"}, "do": TRANSIENT[0]}


@pytest.mark.parametrize("command", ["run", "train"])
def test_what_stands_is_named_where_the_record_cannot_be_read(command: str) -> None:
    schedule = replace(Scene("unreadable", command).schedule(), faults=(UNREADABLE,) * 60)
    seen = acted(schedule, (Entrance(0, "up", "desk"), Entrance(20, command, "desk")))
    end = seen.end(2)
    assert end.exit_code == 6
    assert {left["name"] for left in end.document["remains"]} == {NODE, VM}
    assert "unavailable" in end.document["cause"]
    assert machine_changes(seen.by(2)) == []
    assert seen.history.started == []
    assert [name for name in seen.history.objects if name.endswith("/lease.json")] == []
