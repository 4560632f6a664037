"""Granted quota is free, nothing outside it is taken unasked, and a shortage in its zone never leads elsewhere."""

from __future__ import annotations

import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.errors import EnvironmentFileError, NoCapacity
from tpuops.lifecycle import documents
from tpuops.lifecycle.up import planned, up
from tpuops.report import standing

pytestmark = pytest.mark.wire

GRANTED = SMALL.replace(
    "runtime: tpu-ubuntu2204-base}",
    "runtime: tpu-ubuntu2204-base, grants: [{type: v3, zone: us-central1-a, chips: 8}]}",
)
NO_CAPACITY = 'There is no more capacity in the zone "us-central1-a"; you can try in another zone'


def test_inside_a_grant_the_tpu_is_free_and_the_vm_is_not(bench: Bench) -> None:
    async def document(site):
        return documents.plan((await planned(site))[0], site)

    granted = bench.do(bench.environment(GRANTED), document)
    node, vm = granted["changes"][1:]
    assert (node["usd_per_hour"], node["price"]) == (0.0, "free, granted")
    assert granted["usd_per_hour"] == vm["usd_per_hour"] > 0
    assert "free, granted" in standing.plan(granted)
    paid = bench.do(bench.environment(SMALL), document)
    assert paid["changes"][1]["usd_per_hour"] > 1


def test_outside_every_grant_nothing_is_called_unless_paying_is_allowed(bench: Bench) -> None:
    mark = bench.last()
    elsewhere = ("zone: us-central1-a\n", "zone: us-central1-b\n")
    with pytest.raises(EnvironmentFileError) as refused:
        bench.environment(GRANTED, elsewhere)
    assert refused.value.exit_code == 2
    assert "would be paid for" in refused.value.evidence[0]
    assert bench.calls(mark) == []
    environment = bench.environment(GRANTED, elsewhere, ("grants:", "allow_paid: true, grants:"))
    assert not environment.granted


def test_a_stockout_in_the_granted_zone_creates_nowhere_else(bench: Bench) -> None:
    environment = bench.environment(GRANTED)
    refusal = {"fail_operation": {"code": 8, "message": NO_CAPACITY}}
    bench.cloud.add_faults([{"on": {"method": "tpu.nodes.create"}, "do": refusal}] * 5)
    with pytest.raises(NoCapacity) as refused:
        bench.do(environment, up)
    assert refused.value.exit_code == 4
    tried = bench.calls(method="tpu.nodes.create")
    assert len(tried) == 5
    assert all("/locations/us-central1-a/" in request["path"] for request in tried)
    assert [node for node in bench.cloud.status()["nodes"] if bench.project in str(node)] == []
