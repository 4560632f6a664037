"""A file that got another name does not lose what it made: its open run is named, other leftovers are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.environment import Environment
from tpuops.errors import Busy
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.up import planned, up
from tpuops.stages.record import CLOSED, RUNNING, Records, RunRecord
from tpuops.stages.run import program_of

pytestmark = pytest.mark.wire


def with_run(bench: Bench, environment: Environment, state: str = RUNNING) -> None:
    """Put a run of this environment's program on record."""
    record = RunRecord("r1", state, "digest", "2026-11-20T00:00:00+00:00", program=program_of(environment))

    async def write(site: Site) -> None:
        records = Records(site.store, f"{site.prefix}run.json")
        await records.read()
        await records.write(record)

    bench.do(environment, write)


def renamed(bench: Bench, name: str, text: str = SMALL, *swaps: tuple[str, str]) -> Environment:
    (bench.folder / "tiny.yaml").unlink()
    return bench.environment(text, *swaps, name=name)


def told(bench: Bench) -> list[dict[str, Any]]:
    return [event.facts for event in bench.events if event.kind == "node.nameless"]


@pytest.mark.parametrize("command", [planned, up])
def test_an_open_run_under_the_old_name_is_named_before_anything_is_made(bench: Bench, command: Any) -> None:
    before = bench.environment()
    bench.do(before, up)
    with_run(bench, before)
    after, mark = renamed(bench, "small"), bench.last()
    with pytest.raises(Busy) as refused:
        bench.do(after, command)
    assert "run r1 of this very program is open on tpuops-tiny-ada" in refused.value.message
    assert "no file here is called tiny: was it renamed to small.yaml?" in refused.value.evidence
    assert "call it tiny.yaml again" in refused.value.hint
    assert [call for call in bench.calls(mark) if call["mutating"]] == []


@pytest.mark.parametrize(
    ("state", "swaps"),
    [(CLOSED, ()), (RUNNING, (("train.py]", "other.py]"),))],
    ids=["its run is closed", "it runs another program"],
)
def test_what_may_be_somebody_elses_is_told_and_stops_nothing(bench: Bench, state: str, swaps: Any) -> None:
    before = bench.environment()
    bench.do(before, up)
    with_run(bench, before, state)
    plan, _ = bench.do(renamed(bench, "small", SMALL, *swaps), planned)
    assert len(plan.effects) == 3
    (facts,) = told(bench)
    assert (facts["name"], facts["environment"], facts["zone"]) == ("tpuops-tiny-ada", "tiny", "us-central1-a")


def test_environments_that_have_a_file_beside_it_or_another_owner_are_not_spoken_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bench.environment()
    bench.do(before, up)
    with_run(bench, before)
    assert len(bench.do(bench.environment(name="small"), planned)[0].effects) == 3
    monkeypatch.setenv("TPUOPS_OWNER", "bob")
    assert len(bench.do(renamed(bench, "other"), planned)[0].effects) == 3
    assert told(bench) == []
