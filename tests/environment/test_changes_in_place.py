"""Edited labels are changed under what stands: as `plan` says, under the fence, beside everybody else's labels."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.environment.conftest import SMALL, Bench, HastyClock
from tests.environment.test_plan_is_what_up_does import a_run_is_open, done_by_up, shown
from tpuops.clock import SystemClock
from tpuops.cloud.port import unasked
from tpuops.environment import Environment
from tpuops.errors import Busy, Conflict, EnvironmentFileError
from tpuops.lifecycle.up import up
from tpuops.plan import changes
from tpuops.stages import apply
from tpuops.stages.apply import Crew, make_machines
from tpuops.stages.look import look

pytestmark = pytest.mark.wire

LABELS = ("tpu-ubuntu2204-base}", "tpu-ubuntu2204-base, labels: {team: vision}}")
VM_LABELS = ("e2-small}", "e2-small,\n     labels: {team: sight}}")
NODE_AT = "/v2/projects/<project>/locations/us-central1-a/nodes/tpuops-tiny-ada"
VM_AT = "/compute/v1/projects/<project>/zones/us-central1-a/instances/tpuops-tiny-ada-vm"
PATCH, SET = "tpu.nodes.patch", "compute.instances.setLabels"


@pytest.fixture(autouse=True)
def at_home(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named as somebody in their folder types them."""
    monkeypatch.chdir(bench.folder)


def ask(bench: Bench, verb: str, path: str, body: Any = None) -> Any:
    return bench.cloud.ask(verb, path.replace("<project>", bench.project), body)


def node(bench: Bench) -> dict[str, Any]:
    return dict(ask(bench, "GET", NODE_AT))


def vm(bench: Bench) -> dict[str, Any]:
    return dict(ask(bench, "GET", VM_AT))


def label_node(bench: Bench, **labels: str) -> None:
    """Somebody else writes labels, as a console would."""
    ask(bench, "PATCH", f"{NODE_AT}?updateMask=labels", {"labels": {**node(bench)["labels"], **labels}})
    for _ in range(200):
        if labels.items() <= node(bench)["labels"].items():
            return
        time.sleep(0.05)
    raise AssertionError("the labels never came")


def label_vm(bench: Bench, **labels: str) -> None:
    found = vm(bench)
    body = {"labelFingerprint": found["labelFingerprint"], "labels": {**found["labels"], **labels}}
    ask(bench, "POST", f"{VM_AT}/setLabels", body)


def changed(bench: Bench, mark: int) -> list[str]:
    """What was changed of machines, by anybody, and what it came to."""
    seen = bench.calls(mark, mutating=True)
    return sorted(f"{each['method']} {each['status']}" for each in seen if each["service"] != "storage")


def relabel(bench: Bench, environment: Environment, fence: Callable[[], Any]) -> None:
    """Carry out what the plan says, with something happening between each look and the write that follows it."""

    async def fenced() -> None:
        fence()

    async def command(site: Any) -> None:
        crew = Crew(site.cloud, fenced, site.clock, site.journal)
        await make_machines(changes(site.desired, await look(site.cloud, site.desired)), site.desired, crew)

    bench.do(environment, command)


def test_edited_labels_are_changed_in_place_and_nothing_else_is(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    label_node(bench, cost="theirs")
    label_vm(bench, cost="theirs")
    before = node(bench), vm(bench)
    edited = bench.environment(SMALL, LABELS, VM_LABELS)
    a_run_is_open(bench, edited)
    mark = bench.last()
    plan, document = shown(bench, edited)
    rows = {row["role"]: row for row in document["changes"]}
    tail = "; what runs there is not touched"
    assert rows["node"]["reason"] == f"tiny.yaml:5: tpu.labels.team: none -> vision{tail}"
    assert rows["vm"]["reason"] == f"tiny.yaml:7: vm.labels.team: none -> sight{tail}"
    assert {(row["verb"], row["price"], row["usd_per_hour"]) for row in document["changes"][1:]} == {
        ("change", "no cost", 0.0)
    }
    assert changed(bench, mark) == []
    assert done_by_up(bench, edited) == {f"{change.role}.{change.verb}" for change in plan.effects}
    assert changed(bench, mark) == [f"{SET} 200", f"{PATCH} 200"]
    after = node(bench), vm(bench)
    for was, now, team in zip(before, after, ("vision", "sight"), strict=True):
        assert now["labels"] == {**was["labels"], "team": team}
        assert {key for key in was if was[key] != now[key]} <= {"labels", "labelFingerprint"}
    mark = bench.last()
    assert not bench.do(edited, up).plan.effects
    assert bench.calls(mark, mutating=True) == []
    assert not bench.do(bench.environment(), up).plan.effects, "a label that the file does not name any more stays"
    assert bench.calls(mark, mutating=True) == []


def test_a_stopped_node_is_started_and_then_relabelled(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    ask(bench, "POST", f"{NODE_AT}:stop", {})
    edited = bench.environment(SMALL, LABELS)
    plan, _ = shown(bench, edited)
    assert [(change.role, change.verb) for change in plan.effects] == [("node", "start"), ("node", "change")]
    assert done_by_up(bench, edited) == {"node.start", "node.change"}
    assert node(bench)["labels"]["team"] == "vision"


def test_what_bears_our_name_and_not_our_labels_is_not_given_any(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    label_node(bench, **{"tpuops-owner": "bob"})
    mark = bench.last()
    with pytest.raises(Conflict, match="does not carry this environment's labels"):
        bench.do(bench.environment(SMALL, LABELS), up)
    assert changed(bench, mark) == []


def test_labels_with_an_edit_that_only_down_can_carry_out_are_refused_together(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    mark = bench.last()
    with pytest.raises(EnvironmentFileError) as refused:
        bench.do(bench.environment(SMALL, LABELS, VM_LABELS, ("e2-small,", "e2-medium,")), up)
    assert "has machine type e2-small" in refused.value.evidence[0]
    assert changed(bench, mark) == []


def test_whoever_writes_labels_between_our_look_and_our_write_keeps_them(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    edited = bench.environment(SMALL, VM_LABELS)
    numbers = iter(range(9))
    mark = bench.last()
    bench.events.clear()
    relabel(bench, edited, lambda: label_vm(bench, late="x") if next(numbers) == 0 else None)
    assert changed(bench, mark) == [f"{SET} 200", f"{SET} 200", f"{SET} 412"]
    assert {"late": "x", "team": "sight"}.items() <= vm(bench)["labels"].items()
    assert "vm.contested" in [event.kind for event in bench.events]


def test_somebody_who_never_stops_writing_is_named_after_bounded_tries(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    numbers = iter(range(99))
    mark = bench.last()
    with pytest.raises(Conflict, match="somebody else is changing them") as caught:
        relabel(bench, bench.environment(SMALL, VM_LABELS), lambda: label_vm(bench, late=f"x{next(numbers)}"))
    assert "nothing else was touched" in caught.value.hint
    assert changed(bench, mark).count(f"{SET} 412") == apply.LABEL_TRIES
    assert "team" not in vm(bench)["labels"]


def test_labels_that_another_writer_took_away_again_are_written_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's labels have no fingerprint: only the second look tells."""
    bench.do(bench.environment(), up)
    before = node(bench)["labels"]
    edited = bench.environment(SMALL, LABELS)

    async def command(site: Any) -> None:
        wait, taken = site.cloud.wait, []

        async def overwritten(*given: Any) -> None:
            await wait(*given)
            if not taken:
                taken.append(await site.cloud.set_node_labels(site.desired.node.place, site.desired.node.name, before))
                await wait(taken[0], 60.0)

        monkeypatch.setattr(site.cloud, "wait", overwritten)
        crew = Crew(site.cloud, unasked, site.clock, site.journal)
        await make_machines(changes(site.desired, await look(site.cloud, site.desired)), site.desired, crew)

    mark = bench.last()
    bench.do(edited, command)
    assert changed(bench, mark) == [f"{PATCH} 200"] * 3
    assert node(bench)["labels"] == {**before, "team": "vision"}


def test_without_the_fence_nothing_is_written(bench: Bench) -> None:
    bench.do(bench.environment(), up)

    def lost() -> None:
        raise Busy("the lease is lost")

    mark = bench.last()
    with pytest.raises(Busy):
        relabel(bench, bench.environment(SMALL, LABELS, VM_LABELS), lost)
    assert changed(bench, mark) == []


@pytest.mark.parametrize("method", [PATCH, SET])
def test_a_lost_answer_is_looked_up_and_not_written_again(
    bench: Bench, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HastyClock, "sleep", SystemClock.sleep)  # who is hastier than the cloud writes once more
    bench.do(bench.environment(), up)
    bench.cloud.add_faults([{"on": {"method": method, "resource": "*tpuops-tiny-ada*"}, "do": {"lose_reply": True}}])
    edited = bench.environment(SMALL, LABELS, VM_LABELS)
    mark = bench.last()
    bench.do(edited, up)
    assert changed(bench, mark).count(f"{method} 200") == 1
    contested = [event for event in bench.events if event.kind.endswith(".contested")]
    assert all("Another operation is in progress" in event.facts["why"] for event in contested), (
        "only our own was there"
    )
    assert {each["labels"]["team"] for each in (node(bench), vm(bench))} == {"vision", "sight"}
    assert not bench.do(edited, up).plan.effects
    assert all(fault["fired_at"] for fault in bench.cloud.faults())


class Killed(BaseException):
    """The process ends here."""


def test_killed_between_node_and_vm_the_next_up_does_the_rest_alone(bench: Bench) -> None:
    bench.do(bench.environment(), up)
    edited = bench.environment(SMALL, LABELS, VM_LABELS)

    async def killed(site: Any) -> None:
        plan = changes(site.desired, await look(site.cloud, site.desired))
        only_node = dataclasses.replace(plan, changes=plan.changes[:2])
        await make_machines(only_node, site.desired, Crew(site.cloud, unasked, site.clock, site.journal))
        raise Killed

    with pytest.raises(Killed):
        bench.do(edited, killed)
    plan, _ = shown(bench, edited)
    assert [(change.role, change.verb) for change in plan.effects] == [("vm", "change")]
    mark = bench.last()
    assert done_by_up(bench, edited) == {"vm.change"}
    assert changed(bench, mark) == [f"{SET} 200"]
