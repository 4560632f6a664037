"""What the reaper makes of one look, as a table: also of what takes hours on a real machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from tpuops import switch as orders_of
from tpuops import templates

ORDERS = {"grace_s": 900.0, "behind_s": 0.0, "boot_s": 900.0, "doubt_s": 3600.0, "ttl_s": 60.0, "end": 1_000_000.0}
PAST = {
    "me": "reaper",
    "checked_in": False,
    "since_boot_s": 5000.0,
    "readable_s": 5000.0,
    "unknown_s": 0.0,
    "queued": False,
    "run": None,
}
HELD = {"now": 1000.0, "state": "held", "age_s": 20.0, "generation": 7, "grace_s": 0, "token": "t"}
UNKNOWN = {"now": 1000.0, "state": "unknown", "why": "503"}
FREE = {"now": 1000.0, "state": "free", "generation": 0}
LATE = {"now": 1_000_001.0}
KEEPER = {"run_id": "r1", "until": 2000.0, "stall_s": 60.0, "success": "delete", "failure": "keep"}
KEPT = {**HELD, "token": "", "keeper": KEEPER}
TAKEN = {**KEPT, "token": "a controller"}
RUN = {"run": {"alive": True, "code": None, "silent_s": 5.0, "stalled": False}}
STALLED = {"run": {**RUN["run"], "silent_s": 61.0, "stalled": True}}
NEVER = 1e9

ROWS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "renewed": ("wait", HELD, {}, {}),
    "as old as the grace": ("wait", {**HELD, "age_s": 900.0}, {}, {}),
    "older": ("reap", {**HELD, "age_s": 901.0}, {}, {}),
    "older, just readable again": ("wait", {**HELD, "age_s": 5000.0}, {"readable_s": 30.0}, {}),
    "older, readable long enough": ("reap", {**HELD, "age_s": 5000.0}, {"readable_s": 61.0}, {}),
    "older, behind the other": ("wait", {**HELD, "age_s": 1000.0}, {}, {"behind_s": 900.0}),
    "much older, behind the other": ("reap", {**HELD, "age_s": 1801.0}, {}, {"behind_s": 900.0}),
    "its holder has patience": ("wait", {**HELD, "age_s": 1000.0, "grace_s": 3000}, {}, {}),
    "its holder has none": ("wait", {**HELD, "age_s": 800.0, "grace_s": 1}, {}, {}),
    "renewed past the end": ("wait", {**HELD, **LATE}, {}, {}),
    "ours": ("reap", {**HELD, "token": "reaper"}, {}, {}),
    "from the future": ("wait", {**HELD, "age_s": -50.0}, {}, {}),
    "free": ("wait", FREE, {}, {}),
    "free past the end": ("reap", {**FREE, **LATE}, {}, {}),
    "free, and no time in the answer": ("wait", {**FREE, "now": None}, {}, {}),
    "free and queued": ("reap", FREE, {"queued": True}, {}),
    "free and queued, just booted": ("wait", FREE, {"queued": True, "since_boot_s": 899.0}, {}),
    "free and queued, met once": ("wait", FREE, {"queued": True, "checked_in": True}, {}),
    "unknown": ("wait", UNKNOWN, {"unknown_s": NEVER}, {}),
    "unknown past the end": ("wait", {**UNKNOWN, **LATE}, {"unknown_s": 3600.0}, {}),
    "unknown long past the end": ("reap", {**UNKNOWN, **LATE}, {"unknown_s": 3601.0}, {}),
    "kept": ("keep", KEPT, RUN, {}),
    "kept, and just renewed": ("wait", {**KEPT, "age_s": 5.0}, RUN, {}),
    "kept, and nobody renewed it for long": ("keep", {**KEPT, "age_s": NEVER}, RUN, {}),
    "kept past the end of the machines": ("keep", KEPT, RUN, {"end": 10.0}),
    "kept past its limit": ("leave", {**KEPT, "now": 2001.0}, RUN, {}),
    "kept while nothing was said": ("leave", KEPT, STALLED, {}),
    "kept, and done": ("reap", KEPT, {"run": {**RUN["run"], "alive": False, "code": 0}}, {}),
    "kept, and failed": ("leave", KEPT, {"run": {**RUN["run"], "alive": False, "code": 3}}, {}),
    "kept, and vanished": ("leave", KEPT, {"run": {**RUN["run"], "alive": False, "code": None}}, {}),
    "failed, and its machine is to go": (
        "reap",
        {**KEPT, "keeper": {**KEEPER, "failure": "delete"}},
        {"run": {**RUN["run"], "alive": False, "code": 3}},
        {},
    ),
    "to be ended by one that is gone": (
        "leave",
        {**KEPT, "token": "another reaper", "keeper": {**KEEPER, "ending": True}},
        RUN,
        {},
    ),
    "taken from the machine": ("wait", TAKEN, RUN, {}),
    "taken, and its holder silent for less than the grace": ("wait", {**TAKEN, "age_s": 900.0}, RUN, {}),
    "taken, and its holder gone": ("keep", {**TAKEN, "age_s": 901.0}, RUN, {}),
    "taken, and just readable again": ("wait", {**TAKEN, "age_s": 901.0}, {**RUN, "readable_s": 30.0}, {}),
    "taken, and the run ended": ("wait", TAKEN, {"run": {**RUN["run"], "alive": False, "code": 0}}, {}),
    "taken, its holder gone, and the run ended": (
        "reap",
        {**TAKEN, "age_s": 901.0},
        {"run": {**RUN["run"], "alive": False, "code": 0}},
        {},
    ),
    "kept for a run that is not here": ("wait", KEPT, {}, {}),
    "kept for one that is not here, and old": ("reap", {**KEPT, "age_s": 901.0}, {}, {}),
    "unknown, and no time": ("wait", {**UNKNOWN, "now": None}, {"unknown_s": NEVER}, {}),
}


@pytest.fixture
def reaper() -> Iterator[ModuleType]:
    """The program's module `switch`."""
    folder = str(templates.folder("worker/reaper"))
    sys.path.insert(0, folder)
    try:
        import switch  # noqa: PLC0415

        yield switch
    finally:
        sys.path.remove(folder)
        for name in ("switch", "api"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("row", ROWS)
def test_one_look(row: str, reaper: ModuleType) -> None:
    verdict, seen, past, told = ROWS[row]
    assert reaper.judge({**ORDERS, **told}, seen, {**PAST, **past})[0] == verdict


@pytest.mark.parametrize("text", ["2026-11-20T16:53:52.250Z", "Fri, 20 Nov 2026 16:53:52 GMT"])
def test_the_servers_times_are_read(text: str, reaper: ModuleType) -> None:
    assert int(sys.modules["api"].seconds(text)) == 1795193632


@pytest.mark.parametrize("text", ["", "soon", "2026-13-20T16:53:52Z", None, 7])
def test_what_is_no_time_is_none(text: Any, reaper: ModuleType) -> None:
    assert sys.modules["api"].seconds(text) is None


@pytest.mark.parametrize(
    "told",
    [None, {}, [], {**KEEPER, "until": "soon"}, {key: KEEPER[key] for key in KEEPER if key != "stall_s"}],
)
def test_what_is_not_known_whole_is_not_kept(told: Any, reaper: ModuleType) -> None:
    assert not reaper.is_keeper(told)
    assert reaper.is_keeper({**KEEPER, "stall_s": None, "of a later version": 7})


def test_a_keeper_is_told_as_the_machine_reads_it(reaper: ModuleType) -> None:
    keeper = orders_of.Keeper("r1", "node", "ada", "2026-11-20T09:00:00+00:00", 1e9, None, "delete", "keep")
    assert reaper.is_keeper(json.loads(json.dumps(asdict(keeper))))


def test_a_controller_knows_that_it_lost_its_lease_long_before_any_reaper_acts() -> None:

    for seconds in (12, 60, 180, 900, 86400):
        terms = orders_of.terms(timedelta(seconds=seconds))
        assert terms.ttl_s * orders_of.PARTS <= terms.grace_s
        assert terms.renew_s * 4 <= terms.ttl_s
        assert terms.renew_s >= 1.0, "the bucket takes one write of an object a second"
