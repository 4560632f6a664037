"""Latency profiles: by name, or from a file whose ranges are drawn from its seed."""

import pytest

from tests.localcloud.talk import NODES, Talk
from tpuops.localcloud.core.profile import INSTANT, REALISTIC, profile_of
from tpuops.localcloud.faults import read_profile

CREATE = "tpu.nodes.create"


def test_no_operation_of_the_instant_profile_takes_over_two_seconds():
    assert max(INSTANT.latency(method) for method in (*INSTANT.latencies, *REALISTIC.latencies, "x")) <= 2.0


def test_a_range_is_drawn_from_the_seed_and_scaled():
    stated = {"seed": 4, "scale": 0.5, "latencies": {CREATE: [60, 300]}}
    first, second = profile_of(stated), profile_of(stated)
    drawn = [first.latency(CREATE) for _ in range(20)]
    assert drawn == [second.latency(CREATE) for _ in range(20)]
    assert min(drawn) >= 30
    assert max(drawn) <= 150
    assert len(set(drawn)) == 20
    assert drawn != [profile_of({**stated, "seed": 5}).latency(CREATE) for _ in range(20)]
    assert first.latency("tpu.nodes.delete") == REALISTIC.latency("tpu.nodes.delete") * 0.5


def test_an_operation_takes_as_long_as_the_profile_says():
    talk = Talk(profile=profile_of({"base": "instant", "latencies": {CREATE: 33}, "quotas": {"v3": 8}}))
    talk.call("POST", NODES, {"acceleratorType": "v3-8", "runtimeVersion": "r"}, nodeId="n1")
    talk.wait(32)
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "CREATING"
    talk.wait(2)
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "READY"


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "base: quick",
        "latences: {}",
        "latencies: {a: [3, 1]}",
        "latencies: {a: soon}",
        "scale: x",
        "a: {",
        "seed: x",
    ],
)
def test_a_profile_that_means_nothing_is_refused(tmp_path, text):
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"p\.yaml: "):
        read_profile(str(tmp_path / "p.yaml"))
    with pytest.raises(ValueError, match="no such file"):
        read_profile("quick")
