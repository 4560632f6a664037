"""Quota is asked before anything is made: what is certainly too little is refused, what may be is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.errors import QuotaExceeded
from tpuops.facts import catalogue, quotas
from tpuops.lifecycle.up import planned, up
from tpuops.resources import Holding, Limit, Link, Node, NodeSpec, Place, VmSpec
from tpuops.stages import quota

ZONE = Place("local-p", "us-central1-a")
V3 = "TPUV3sPodPerProjectPerZoneForTPUAPI"
V5E, SERVING = "TPUV5sLitepodPerProjectPerZoneForTPUAPI", "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
SEEN = (
    "TPUV2sPodPerProjectPerRegionForTPUAPI",
    "TPUV2sPreemptiblePodPerProjectPerZoneForTPUAPI",
    "TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI",
    "TPUV5sPreemptibleLitepodPerProjectPerRegionForTPUAPI",
    "TPUV5PPerProjectPerZoneForTPUAPI",
    "TPUV5PPreemptiblePerProjectPerZoneForTPUAPI",
    "TPUV6EPerProjectPerZoneForTPUAPI",
    "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI",
    V5E,
    SERVING,
)


def spec(accelerator: str, *, spot: bool = False) -> NodeSpec:
    return NodeSpec("n", ZONE, accelerator, "r", spot, {})


def node(accelerator: str, zone: str = ZONE.zone, *, spot: bool = False, name: str = "other") -> Node:
    return Node(name, Place("local-p", zone), "1", "READY", "HEALTHY", accelerator, "r", spot, {}, ())


def limit(quota_id: str, value: int, place: str = ZONE.zone) -> Limit:
    return Limit(quota_id, place, value)


@pytest.mark.parametrize("quota_id", SEEN)
def test_every_id_that_was_seen_is_read(quota_id: str) -> None:
    found = quotas.parsed(quota_id)
    assert found is not None
    assert (found.spot, found.zonal) == ("Preemptible" in quota_id, "PerZone" in quota_id)


def test_an_id_of_request_rates_is_no_quota_of_machines() -> None:
    assert quotas.parsed("ReadRequestsPerMinutePerProject") is None


@pytest.mark.parametrize(
    ("accelerator", "spot", "bound"),
    [
        ("v2-8", True, {"TPUV2sPreemptiblePodPerProjectPerZoneForTPUAPI"}),
        ("v2-32", False, {"TPUV2sPodPerProjectPerRegionForTPUAPI"}),
        ("v5litepod-8", False, {V5E, SERVING}),
        ("v5litepod-16", False, {V5E}),
        ("v5p-8", True, {"TPUV5PPreemptiblePerProjectPerZoneForTPUAPI"}),
        ("v6e-8", False, {"TPUV6EPerProjectPerZoneForTPUAPI"}),
        ("v3-8", False, set()),
    ],
)
def test_which_ids_may_bind_a_slice(accelerator: str, spot: bool, bound: set[str]) -> None:
    known = catalogue.accelerator(accelerator)
    assert known is not None
    assert {one.id for one in quotas.binding(SEEN, known, spot=spot)} == bound


def test_what_is_short_by_every_reading_is_certain() -> None:
    found = quota.of_slice(spec("v6e-8"), [limit("TPUV6EPerProjectPerZoneForTPUAPI", 8)], [node("v6e-4")], [])
    assert found is not None and found.certain
    assert found.words == (
        "quota TPUV6EPerProjectPerZoneForTPUAPI in us-central1-a leaves no room for v6e-8: "
        "it allows 8, 4 in use by other, and 8 more are needed"
    )


def test_a_number_that_may_count_cores_or_chips_is_a_doubt_between_the_two() -> None:
    v3_8 = [quota.of_slice(spec("v3-8"), [limit(V3, value)], [], []) for value in (3, 4, 7, 8)]
    assert [found and found.certain for found in v3_8] == [True, False, False, None]


def test_spot_and_on_demand_are_counted_apart() -> None:
    limits = [limit("TPUV6EPerProjectPerZoneForTPUAPI", 8), limit("TPUV6EPreemptiblePerProjectPerZoneForTPUAPI", 8)]
    assert quota.of_slice(spec("v6e-8", spot=True), limits, [node("v6e-8")], []) is None
    assert quota.of_slice(spec("v6e-8", spot=True), limits, [node("v6e-8", spot=True)], []) is not None


def test_another_zone_counts_in_the_regions_quota_only() -> None:
    beside = [node("v6e-8", "us-central1-b")]
    zonal, regional = "TPUV6EPerProjectPerZoneForTPUAPI", "TPUV6EPerProjectPerRegionForTPUAPI"
    assert quota.of_slice(spec("v6e-8"), [limit(zonal, 8)], beside, []) is None
    assert quota.of_slice(spec("v6e-8"), [limit(regional, 8, ZONE.region)], beside, []) is not None


def test_queued_resources_hold_quota_in_every_state_and_are_named() -> None:
    failed = Holding("old", ZONE, "v6e-4", False, 2, "FAILED")
    found = quota.of_slice(spec("v6e-4"), [limit("TPUV6EPerProjectPerZoneForTPUAPI", 8)], [], [failed])
    assert found is not None and found.certain
    assert "8 in use by old (FAILED)" in found.words


def test_of_two_possible_quotas_both_must_be_short() -> None:
    short, roomy = limit(SERVING, 4), limit(V5E, 512)
    found = quota.of_slice(spec("v5litepod-8"), [short, roomy], [], [])
    assert found is not None and not found.certain and found.limit is short
    assert "may leave no room" in found.words
    sure = quota.of_slice(spec("v5litepod-8"), [short, limit(V5E, 0)], [], [])
    assert sure is not None and sure.certain


def test_the_node_that_is_made_anew_does_not_stand_in_its_own_way() -> None:
    limits = [limit("TPUV6EPerProjectPerZoneForTPUAPI", 8)]
    assert quota.of_slice(spec("v6e-8"), limits, [node("v6e-8", name="n")], []) is None


@pytest.mark.parametrize(
    ("machine_type", "external", "short"),
    [("e2-small", True, "IN_USE_ADDRESSES"), ("e2-small", False, ""), ("n2-standard-8", False, "N2_CPUS")],
)
def test_a_machines_quotas_are_those_of_its_family(machine_type: str, external: bool, short: str) -> None:
    limits = [
        Limit("CPUS", "us-central1", 24, 20),
        Limit("N2_CPUS", "us-central1", 4, 0),
        Limit("INSTANCES", "us-central1", 10, 1),
        Limit("IN_USE_ADDRESSES", "us-central1", 4, 4),
    ]
    wanted = VmSpec("vm", ZONE, machine_type, "i", 10, {}, link=Link(external=external))
    found = quota.of_vm(wanted, {"e2-small": 2}.get(machine_type, 8), limits)
    assert (found.limit.id if found else "") == short


@pytest.fixture
def said(bench: Bench) -> Iterator[Any]:
    """What the cloud limits, for one test."""

    def say(**limits: Any) -> None:
        bench.cloud.ask("POST", "/_cloud/project", {"quotas": limits})

    yield say
    bench.cloud.ask("POST", "/_cloud/project", {"quotas": {}})
    bench.cloud.ask("POST", "/_cloud/access", {"disabled": []})


@pytest.mark.wire
@pytest.mark.parametrize("command", [planned, up])
def test_too_little_is_refused_with_its_line_before_anything_is_made(bench: Bench, said: Any, command: Any) -> None:
    said(**{V3: {"us-central1-a": 3}})
    mark = bench.last()
    with pytest.raises(QuotaExceeded) as refused:
        bench.do(bench.environment(), command)
    assert bench.calls(mark, mutating=True) == []
    assert refused.value.exit_code == 4
    assert f"quota {V3} in us-central1-a leaves no room for v3-8: it allows 3, 0 in use" in refused.value.message
    assert refused.value.evidence == ("tiny.yaml:5: tpu.accelerator: v3-8",)
    assert "delete what holds it" in refused.value.hint


@pytest.mark.wire
def test_what_may_be_too_little_is_said_and_left_to_the_creation(bench: Bench, said: Any) -> None:
    said(**{V3: {"us-central1-a": 7}})
    bench.do(bench.environment(), planned)
    (doubt,) = [event.facts["why"] for event in bench.events if event.kind == "check.doubt"]
    assert "may leave no room for v3-8" in doubt
    with pytest.raises(QuotaExceeded):
        bench.do(bench.environment(), up)  # here the number counts cores, and so the creation is refused


@pytest.mark.wire
def test_a_machine_without_quota_is_refused_with_its_own_line(bench: Bench, said: Any) -> None:
    said(CPUS={"us-central1": 1})
    with pytest.raises(QuotaExceeded) as refused:
        bench.do(bench.environment(SMALL), planned)
    assert "quota CPUS in us-central1 leaves no room for e2-small: it allows 1," in refused.value.message
    assert refused.value.evidence == ("tiny.yaml:6: vm.machine_type: e2-small",)


@pytest.mark.wire
def test_who_may_not_ask_for_quota_is_told_so_and_goes_on(bench: Bench, said: Any) -> None:
    said(**{V3: {"us-central1-a": 8}})
    bench.cloud.ask("POST", "/_cloud/access", {"disabled": ["cloudquotas.googleapis.com"]})
    plan, _ = bench.do(bench.environment(), planned)
    assert len(plan.effects) == 3
    (event,) = [event for event in bench.events if event.kind == "check.unanswered"]
    assert event.facts["method"] == "cloudquotas.quotaInfos.list"
