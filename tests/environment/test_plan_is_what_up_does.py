"""What `plan` prints is what `up` executes; an edit that would pull the ground from under an open run is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.environment import Environment
from tpuops.errors import Busy, EnvironmentFileError
from tpuops.lifecycle import documents
from tpuops.lifecycle.down import down
from tpuops.lifecycle.up import planned, up
from tpuops.plan import Plan, Verb
from tpuops.report import standing
from tpuops.resources import METADATA_BUCKET
from tpuops.stages.record import RUNNING, Records, RunRecord

pytestmark = pytest.mark.wire

CHANGE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["role", "verb", "name", "reason", "usd_per_hour", "price"],
    "properties": {
        "role": {"enum": ["bucket", "node", "vm"]},
        "verb": {"enum": ["keep", "create", "change", "start", "wait", "replace", "delete"]},
        "name": {"type": "string", "minLength": 3},
        "reason": {"type": "string", "minLength": 3},
        "usd_per_hour": {"type": ["number", "null"], "minimum": 0},
        "price": {"type": "string", "minLength": 3},
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["environment", "changes", "usd_per_hour"],
    "properties": {
        "environment": {"const": "tiny"},
        "changes": {"type": "array", "minItems": 2, "items": CHANGE},
        "usd_per_hour": {"type": ["number", "null"]},
    },
}
NO_VM = SMALL.replace("vm: {machine_type: e2-small}", "vm: none")


def shown(bench: Bench, environment: Environment) -> tuple[Plan, dict[str, Any]]:
    """The plan and its document, checked against its schema."""

    async def both(site: Any) -> tuple[Plan, dict[str, Any]]:
        plan, _ = await planned(site)
        return plan, documents.plan(plan, site)

    plan, document = bench.do(environment, both)
    jsonschema.validate(document, SCHEMA)
    for change in document["changes"]:
        for word in (change["verb"], change["role"], *change["reason"].split()):
            assert word in standing.plan(document)
    return plan, document


def done_by_up(bench: Bench, environment: Environment) -> set[str]:
    """What `up` did to whole resources, as `role.verb`."""
    bench.events.clear()
    bench.do(environment, up)
    verbs = {str(verb) for verb in Verb} - {"wait"}
    kinds = {event.kind for event in bench.events if event.kind.partition(".")[2] in verbs}
    return {kind for kind in kinds if not (kind.endswith(".delete") and kind.replace("delete", "replace") in kinds)}


def a_run_is_open(bench: Bench, environment: Environment) -> None:
    async def write(site: Any) -> None:
        record = RunRecord("20261120-120000-abcdef", RUNNING, "digest", "2026-11-20T12:00:00+00:00")
        await Records(site.store, f"{site.prefix}run.json").write(record)

    bench.do(environment, write)


def call(bench: Bench, verb: str, path: str) -> None:
    bench.cloud.ask(verb, path.replace("<project>", bench.project), {})


def test_from_nothing_over_a_stopped_node_and_vm_to_no_vm(bench: Bench) -> None:
    environment = bench.environment()
    plan, document = shown(bench, environment)
    assert document["usd_per_hour"] > 0
    wanted = {f"{change.role}.{change.verb}" for change in plan.effects}
    assert wanted == {"bucket.create", "node.create", "vm.create"}
    assert done_by_up(bench, environment) == wanted
    place = "projects/<project>/{}/us-central1-a"
    call(bench, "POST", f"/v2/{place.format('locations')}/nodes/tpuops-tiny-ada:stop")
    call(bench, "POST", f"/compute/v1/{place.format('zones')}/instances/tpuops-tiny-ada-vm/stop")
    plan, _ = shown(bench, environment)
    wanted = {f"{change.role}.{change.verb}" for change in plan.effects}
    assert wanted == {"node.start", "vm.replace"}
    assert done_by_up(bench, environment) == wanted
    smaller = bench.environment(NO_VM)
    plan, _ = shown(bench, smaller)
    assert [(change.role, change.verb) for change in plan.effects] == [("vm", "delete")]
    assert done_by_up(bench, smaller) == {"vm.delete"}
    mark = bench.last()
    assert not bench.do(smaller, up).plan.effects
    assert bench.calls(mark, mutating=True) == []


def test_down_removes_a_vm_that_the_file_no_longer_asks_for(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    removed = bench.do(bench.environment(NO_VM), lambda site: down(site, force=True)).removed
    assert removed == ("tpuops-tiny-ada", "tpuops-tiny-ada-vm")


@pytest.fixture(scope="module")
def running(shared_cloud: Any, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Four workers and a VM stand, and a run is open on them."""
    folder = tmp_path_factory.mktemp("running")
    (folder / "train.py").touch()
    bench = Bench(shared_cloud, folder, "local-running")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPUOPS_OWNER", "ada")
        bench.do(bench.environment(LARGE), up)
        a_run_is_open(bench, bench.environment(LARGE))
    return bench


LARGE = SMALL.replace("us-central1-a", "us-central2-b").replace("v3-8", "v4-32")
EDITS = {
    "shrinking": ("v4-32", "v4-8", "has accelerator v4-32"),
    "growing": ("v4-32", "v4-64", "has accelerator v4-32"),
    "spot": ("v4-32,", "v4-32, provisioning: spot,", "has provisioning on-demand"),
    "another runtime": ("tpu-ubuntu2204-base", "tpu-vm-tf-2.17.1-pod-pjrt", "has runtime tpu-ubuntu2204-base"),
    "another vm": ("e2-small", "e2-medium", "has machine type e2-small"),
    "no vm": ("{machine_type: e2-small}", "none", "asks for no VM any more"),
    "private": ("vm:", "ssh: {reach: internal}\nvm:", "has addresses external"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("command", [planned, up])
def test_editing_while_a_run_is_open_is_refused_before_any_change(
    running: Bench, monkeypatch: pytest.MonkeyPatch, edit: str, command: Any
) -> None:
    monkeypatch.setenv("TPUOPS_OWNER", "ada")
    old, new, says = EDITS[edit]
    mark = running.last()
    with pytest.raises(Busy) as refused:
        running.do(running.environment(LARGE, (old, new)), command)
    assert refused.value.exit_code == 7
    assert "run 20261120-120000-abcdef is open" in refused.value.message
    assert says in refused.value.message
    assert "nothing was touched" in refused.value.hint
    assert running.calls(mark, mutating=True) == []


def test_renaming_the_home_bucket_is_refused_since_the_run_is_on_record_in_the_old_one(
    running: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPUOPS_OWNER", "ada")
    renamed = running.environment(LARGE + "bucket: {name: another-home-4711}\n")
    mark = running.last()
    with pytest.raises(EnvironmentFileError) as refused:
        running.do(renamed, up)
    assert "tiny.yaml:8: bucket.name: tpuops-tiny-ada has home bucket tpuops-tiny-ada-" in refused.value.evidence[0]
    assert running.calls(mark, mutating=True) == []


def test_moving_zones_is_refused_while_a_run_is_open(bench: Bench) -> None:
    environment = bench.environment()
    bench.do(environment, up)
    a_run_is_open(bench, environment)
    mark = bench.last()
    with pytest.raises(EnvironmentFileError) as refused:
        bench.do(bench.environment(SMALL, ("us-central1-a", "us-central1-b")), up)
    assert "stands in us-central1-a (READY) and would stay there" in "\n".join(refused.value.evidence)
    assert bench.calls(mark, mutating=True) == []


def test_a_node_of_an_earlier_version_tells_no_bucket_and_is_kept(bench: Bench) -> None:
    environment = bench.environment()

    async def old_way(site: Any) -> Plan:
        metadata = {key: value for key, value in site.desired.node.metadata.items() if key != METADATA_BUCKET}
        older = replace(site.desired, node=replace(site.desired.node, metadata=metadata))
        await up(replace(site, desired=older))
        return (await planned(site))[0]

    assert not bench.do(environment, old_way).effects
