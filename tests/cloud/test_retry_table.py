"""Which calls are made again after which faults, over the wire: each row under each family, counted by the cloud.

The families are those of Google's own conformance table for storage clients (googleapis/conformance-tests,
storage/v1/retry_tests.json) and some more, over every service. What a cell expects follows from the row's reason and
the family's faults by `expected`; what does not is said in the row.
"""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cloud.retry_cell import Cell, Row, Why
from tests.cloud.retry_rows import ROWS
from tests.cloud_fixture import LocalCloud
from tpuops.clock import SystemClock
from tpuops.cloud import compute, rest, retry, storage, tpu
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.endpoints import at
from tpuops.errors import AccessError, NotFound, Refused, TpuopsError

pytestmark = [pytest.mark.wire, pytest.mark.timeout(120)]

CUT = 256 * 1024
PATIENCE_S, STALL_S = 2.0, 3.0
"""How long a call may take under the families that stall, and how long those do."""
STALLING = frozenset({"stall", "stalled stream"})


def refused(http: int, **more: Any) -> dict[str, Any]:
    return {"error": {"http": http, "message": "scripted", **more}}


RESET = {"drop_request": True}
LOST = {"lose_reply": True}
FAMILIES: dict[str, tuple[dict[str, Any], ...]] = {
    "503, 503": (refused(503), refused(503)),
    "reset, reset": (RESET, RESET),
    "reset, 503": (RESET, refused(503)),
    "lost, lost": (LOST, LOST),
    "lost, 503": (LOST, refused(503)),
    "400": (refused(400),),
    "401": (refused(401),),
    "403": (refused(403),),
    "404": (refused(404),),
    "503, 400": (refused(503), refused(400)),
    "429 with Retry-After": (refused(429, reason="rateLimitExceeded", retry_after_s=1),),
    "408": (refused(408),),
    "stall": ({"delay_s": STALL_S},),
    "broken stream": ({"broken_stream": {"after_bytes": CUT}},),
    "stalled stream": ({"stalled_stream": {"after_bytes": CUT, "for_s": STALL_S}},),
}
FINAL: dict[int, tuple[type[TpuopsError], ...]] = {
    400: (Refused,),
    401: (AccessError,),
    403: (Refused, AccessError),
    404: (NotFound,),
}
"""What is never asked again, and how it ends."""


ELSEWHERE = {
    "compute.operations.get": "a look at a change's operation, a read as all others",
    "oauth2.tokeninfo": "doctor's question about a login of Google's, asked once",
}
"""Methods that have no row."""


class Expected(NamedTuple):
    """`tries` of the method, of which the first ones meet the faults; `ends` empty where the call succeeds."""

    tries: int
    ends: tuple[type[TpuopsError], ...] = ()


def expected(row: Row, faults: tuple[dict[str, Any], ...]) -> Expected:
    """A passing fault costs one try; a final one ends it; so does what was carried out unheard, where one looks."""
    for number, fault in enumerate(faults, 1):
        http = fault.get("error", {}).get("http")
        if http is not None and row.why is Why.ANY:
            return Expected(number)
        if http in FINAL:
            return Expected(number, () if http == 404 and row.gone_is_fine else FINAL[http])
        if row.why in {Why.LOOKED, Why.SEEN_LATE} and not {"lose_reply", "delay_s"}.isdisjoint(fault):
            return Expected(number)
    return Expected(len(faults) + 1)


def applies(row: Row, family: str) -> bool:
    """Only an answer that is long can break off."""
    return row.streams or "stream" not in family


def test_every_method_that_the_product_names_is_in_the_table() -> None:
    services = "tpu|compute|storage|cloudquotas|iam|resourcemanager|secretmanager|oauth2"
    sources = Path(tpu.__file__).parent.glob("*.py")
    named = {found for source in sources for found in re.findall(rf'"((?:{services})(?:\.\w+)+)"', source.read_text())}
    assert named - {row.method for row in ROWS.values()} == set(ELSEWHERE)


@pytest.fixture(scope="module")
def one_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    served = LocalCloud(tmp_path_factory.mktemp("retry") / "cloud", "--seed", "1", "--no-machines")
    served.start()
    yield served
    served.stop()


@pytest.fixture
def served(one_cloud: LocalCloud) -> Iterator[LocalCloud]:
    """Empty for each family, its log and its faults too."""
    yield one_cloud
    with warnings.catch_warnings():  # requests leaves the connection of a download that was refused to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    one_cloud.ask("POST", "/_cloud/reset")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.01)


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client gives up after `PATIENCE_S`."""
    for service in (tpu, compute, storage):
        monkeypatch.setitem(service._ONCE, "timeout", PATIENCE_S)
    monkeypatch.setattr(rest, "TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(compute, "LONGEST_WAIT_S", PATIENCE_S)


@pytest.mark.parametrize("family", FAMILIES)
async def test_each_method_is_asked_again_as_the_table_says(
    served: LocalCloud, home: None, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    there = GoogleCloud(at(served.url, served.ssh_port), SystemClock())
    number = list(FAMILIES).index(family)
    rows = {name: row for name, row in ROWS.items() if applies(row, family)}
    cells = {name: Cell(served, there, f"local-{name}-{number}") for name in rows}
    made = dict(zip(rows, await asyncio.gather(*(row.make(cells[name]) for name, row in rows.items())), strict=True))
    if family in STALLING:
        impatient(monkeypatch)

    async def play(name: str) -> list[str]:
        return await differences(cells[name], rows[name], made[name], FAMILIES[family])

    together = [name for name, row in rows.items() if not row.alone]
    wrong = dict(zip(together, await asyncio.gather(*map(play, together)), strict=True))
    for name in rows.keys() - wrong.keys():
        wrong[name] = await play(name)
    assert {name: problems for name, problems in wrong.items() if problems} == {}
    assert [fault for fault in served.faults() if fault["fired_at"] is None] == []


async def differences(cell: Cell, row: Row, made: Any, faults: tuple[dict[str, Any], ...]) -> list[str]:
    """How one cell differs from the table."""
    wanted = expected(row, faults)
    planned = faults[: wanted.tries]
    on = {"method": row.method} | ({} if row.unnamed else {"resource": f"*{cell.name}*"})
    before = max(entry["n"] for entry in await asyncio.to_thread(cell.served.requests))
    await asyncio.to_thread(cell.served.add_faults, [{"on": on, "do": do} for do in planned])
    ended: Exception | None = None
    try:
        await row.act(cell, made)
    except TpuopsError as error:
        ended = error
    entries = await asyncio.to_thread(cell.served.requests, before, method=row.method)
    ours = [entry for entry in entries if row.unnamed or cell.name in entry["resource"]]
    problems = []
    if not (isinstance(ended, wanted.ends) if wanted.ends else ended is None):
        problems.append(f"ended {ended!r}, not {wanted.ends or 'well'}")
    whole = 1 if "stream" not in str(planned) else row.requests  # it breaks at the last request of a try
    requests = len(planned) * whole + row.requests * (wanted.tries - len(planned))
    late = row.why is Why.SEEN_LATE and wanted.tries == len(planned) and not wanted.ends
    if len(ours) not in {requests, requests + late}:
        problems.append(f"{len(ours)} requests, not {requests}: {[entry['status'] for entry in ours]}")
    done = sum(1 for entry in ours if entry["mutating"] and 200 <= entry["status"] < 300)
    if done > 1 and row.why in {Why.CONDITION, Why.LOOKED}:
        problems.append(f"carried out {done} times")
    asked_s = planned[0].get("error", {}).get("retry_after_s", 0)
    if asked_s and len(ours) > 1 and ours[1]["at"] - ours[0]["at"] < asked_s:
        problems.append(f"asked again after {ours[1]['at'] - ours[0]['at']:.2f} s")
    return problems
