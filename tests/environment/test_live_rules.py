"""Before anything is made the cloud is asked whether it can be had; each refusal names the line and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.errors import EnvironmentFileError
from tpuops.facts import catalogue
from tpuops.lifecycle.down import down
from tpuops.lifecycle.up import planned, up

pytestmark = pytest.mark.wire

QUESTIONS = {
    "tpu.acceleratorTypes.list",
    "tpu.runtimeVersions.list",
    "compute.machineTypes.get",
    "tpu.nodes.list",
    "compute.instances.aggregatedList",
}


def refusal(bench: Bench, environment: Any, command: Any = planned) -> str:
    """What the command is refused with; nothing was changed by it."""
    mark = bench.last()
    with pytest.raises(EnvironmentFileError) as refused:
        bench.do(environment, command)
    assert bench.calls(mark, mutating=True) == []
    return "\n".join(refused.value.evidence)


@pytest.mark.parametrize("command", [planned, up])
def test_a_machine_type_that_the_zone_lacks_is_refused(bench: Bench, command: Any) -> None:
    told = refusal(bench, bench.environment(SMALL, ("e2-small", "n9-standard-4")), command)
    assert "tiny.yaml:6: vm.machine_type: Google says that us-central1-a has no n9-standard-4" in told
    assert "hint: `gcloud compute machine-types list --zones=us-central1-a`" in told


def test_an_accelerator_and_a_runtime_that_google_does_not_list_are_refused_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = bench.environment(SMALL, ("tpu-ubuntu2204-base", "tpu-vm-tf-2.9.1-pjrt"))
    # The file passed the packaged tables; Google has moved on since, which another zone's lists stand for.
    moved = environment.model_copy(update={"zone": "us-east5-b"})
    told = refusal(bench, moved)
    assert "tiny.yaml:5: tpu.accelerator: Google says that us-east5-b has no v3-8 for this project" in told
    assert "tiny.yaml:5: tpu.runtime: Google says that us-east5-b has no runtime tpu-vm-tf-2.9.1-pjrt" in told


def test_each_question_is_asked_once_by_the_first_up_and_never_by_the_second(bench: Bench) -> None:
    environment = bench.environment()
    bench.do(environment, up)
    asked = [entry["method"] for entry in bench.calls() if entry["method"] in QUESTIONS]
    assert sorted(asked) == sorted(QUESTIONS)
    mark = bench.last()
    assert not bench.do(environment, up).plan.effects
    again = [entry["method"] for entry in bench.calls(mark)]
    assert not set(again) & QUESTIONS
    assert len(again) == 5, "what stands, the project's number, and whether a killed `up` left its lease behind"


def test_a_question_that_nobody_answers_is_said_and_stops_nothing(bench: Bench) -> None:
    down_now = {"error": {"http": 503, "status": "UNAVAILABLE", "message": "The service is currently unavailable."}}
    fault = {"on": {"method": "tpu.runtimeVersions.list"}, "do": down_now}
    bench.cloud.add_faults([fault] * 6)
    plan, _ = bench.do(bench.environment(), planned)
    assert len(plan.effects) == 3
    (said,) = [event for event in bench.events if event.kind == "check.unanswered"]
    assert said.facts["method"] == "tpu.runtimeVersions.list"


def a_bucket(bench: Bench, name: str, location: str, project: str = "", **more: Any) -> None:
    body = {"name": name, "location": location, **more}
    bench.cloud.ask("POST", f"/storage/v1/b?project={project or bench.project}", body)


def test_a_bucket_of_another_project_is_refused(bench: Bench) -> None:
    name = f"{bench.project}-theirs"
    a_bucket(bench, name, "US-CENTRAL1", "local-somebody-else")
    told = refusal(bench, bench.environment(SMALL + f"bucket: {{name: {name}}}\n"))
    assert f"tiny.yaml:8: bucket.name: bucket {name} belongs to project number" in told
    assert "hint: set `bucket.name`" in told


def test_a_bucket_whose_location_does_not_hold_the_region_is_refused(bench: Bench) -> None:
    name = f"{bench.project}-far"
    a_bucket(bench, name, "EUROPE-WEST4")
    told = refusal(bench, bench.environment(SMALL + f"bucket: {{name: {name}}}\n"))
    assert "tiny.yaml:8: bucket.name: " in told
    assert "europe-west4" in told
    assert "hint: a bucket cannot move" in told


def test_a_multi_region_that_holds_the_region_is_taken(bench: Bench) -> None:
    name = f"{bench.project}-us"
    a_bucket(bench, name, "US")
    plan, _ = bench.do(bench.environment(SMALL + f"bucket: {{name: {name}}}\n"), planned)
    assert [change.name for change in plan.changes if change.verb == "keep"] == [name]


@pytest.mark.parametrize(
    ("location", "region", "regions", "holds"),
    [
        ("us-central1", "us-central1", (), True),
        ("us-east1", "us-central1", (), False),
        ("us", "us-south1", (), True),
        ("us", "southamerica-west1", (), False),
        ("eu", "europe-west4", (), True),
        ("eu", "europe-west2", (), False),
        ("asia", "asia-east1", (), True),
        ("nam4", "us-central1", (), True),
        ("nam4", "us-west1", (), False),
        ("eur4", "europe-west4", (), True),
        ("us", "us-west4", ("us-west4", "us-west1"), True),
    ],
)
def test_locations_hold_the_regions_that_google_says(location: str, region: str, regions: Any, holds: bool) -> None:
    assert catalogue.location_holds(location, region, regions) is holds


def test_moving_zones_while_something_stands_is_refused_until_it_is_down(bench: Bench) -> None:
    environment = bench.environment()
    bench.do(environment, up)
    moved = bench.environment(SMALL, ("us-central1-a", "us-central1-b"))
    told = refusal(bench, moved, up)
    assert "tiny.yaml:4: zone: tpuops-tiny-ada of this environment stands in us-central1-a (READY)" in told
    assert "tpuops-tiny-ada-vm of this environment stands in us-central1-a (RUNNING)" in told
    bench.do(bench.environment(), lambda site: down(site, force=True))
    assert len(bench.do(bench.environment(SMALL, ("us-central1-a", "us-central1-b")), planned)[0].effects) == 2
