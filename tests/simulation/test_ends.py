"""How runs end when something goes wrong at their very end, or before anybody knows their machine again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.acts import LONG, OTHER, Act, Acting, acted, with_file
from tests.simulation.drafts import Schedule
from tests.simulation.history import History
from tests.simulation.link import PlayedAgent
from tests.simulation.lives import ANY, Doom
from tests.simulation.play import INTERRUPTED, PARENT, _json
from tests.simulation.properties import standing
from tests.simulation.sweep import TAKEN, Scene
from tests.simulation.troubles import NODE, VM
from tests.simulation.worker import Machine, Program
from tpuops.lifecycle.site import Site
from tpuops.localcloud.core.profile import REALISTIC
from tpuops.localcloud.core.wire import Reply, Request
from tpuops.remote.port import Exit

REFUSED, LEFT_OVER, LIMIT = 7, 6, 8
UNTAKEN = LEFT_OVER
"""How `--detach` ends here: no reaper is played, so that no machine takes the lease."""
RUN = Scene("ends", "run").schedule()
DELETING = with_file(RUN, teardown={"success": "delete", "failure": "delete", "interrupt": "delete"})
IN_TRAINING = Doom(150, ANY, same_host=True)


def signal(method: str, nth: int, phase: str = "send") -> Doom:
    """Told to end at the nth call of a method."""
    return Doom(nth, phase, same_host=True, method=method, signal=True)


def death(method: str, phase: str) -> Doom:
    """Killed at the first call of a method."""
    return Doom(1, phase, same_host=True, method=method)


def saved(history: History) -> list[str]:
    """The outputs in the bucket."""
    return [name for name in history.objects if "/saved/outputs/" in name]


def exits(history: History) -> list[int]:
    """Of the controllers that lived to their end."""
    return [end.exit_code for end in history.ends]


@pytest.mark.parametrize("command", ["train", "run"])
def test_who_is_refused_leaves_a_detached_run_to_its_machine(command: str) -> None:
    left = Act(0, "run", "desk", detach=True)
    history, stage = acted(RUN, left, Act(200, command, "bobs", source=OTHER), program=LONG)
    assert exits(history) == [UNTAKEN, REFUSED]
    assert stage.alive
    assert stage.lease["keeper"]
    assert not stage.lease["token"]


def test_who_is_told_to_end_while_it_follows_a_detached_run_leaves_it_to_its_machine() -> None:
    joined = Act(200, "run", "desk", signal("storage.objects.insert", 6))
    history, stage = acted(RUN, Act(0, "run", "desk", detach=True), joined, program=LONG)
    assert exits(history) == [UNTAKEN, INTERRUPTED]
    assert ("run.enter", "join") in {
        (event.kind, event.facts.get("entry")) for who, event in history.events if who == 2
    }
    assert stage.alive
    assert stage.lease["keeper"]
    assert not stage.lease["token"]


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks once, while the training is being stopped."""
    stop, broken = PlayedAgent.stop, list[bool]()

    async def stopping(agent: PlayedAgent, grace_s: float) -> Any:
        if not broken:
            broken.append(True)
            agent._machine.drop(0.0)
        return await stop(agent, grace_s)

    monkeypatch.setattr(PlayedAgent, "stop", stopping)


@pytest.mark.usefixtures("breaking")
@pytest.mark.parametrize(
    ("schedule", "doom", "code"),
    [
        (with_file(RUN, limits={"runtime": "2m"}), None, LIMIT),
        (DELETING, signal("storage.objects.insert", 16), INTERRUPTED),
    ],
    ids=["at the limit", "interrupted"],
)
def test_a_connection_that_breaks_while_the_training_is_ended_is_made_again(
    schedule: Schedule, doom: Doom | None, code: int
) -> None:
    history, _ = acted(schedule, Act(0, "run", "desk", doom), program=LONG)
    assert exits(history) == [code]
    assert history.problems == []
    assert saved(history)
    assert standing(history) == set()


def test_an_ended_run_whose_machine_does_not_answer_is_named() -> None:
    def silence(stage: Acting) -> None:
        for machine in stage.played.machines.values():
            machine.refused_until = 1e9

    killed = Act(0, "run", "desk", death("tpu.nodes.delete", "send"))
    history, _ = acted(RUN, killed, Act(200, "run", "desk"), breaks={190.0: silence})
    assert exits(history) == [LEFT_OVER]
    remains = history.ends[-1].document["remains"]
    assert {left["name"] for left in remains} == standing(history)
    assert all("has ended, and is not finished" in left["why"] for left in remains)


@pytest.fixture
def unsavable(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The bucket takes no results, until this list is empty."""
    put, broken = Machine.put, [True]

    def putting(machine: Machine, name: str, data: bytes, bucket: str = "") -> bool:
        return not (broken and "/saved/" in name) and put(machine, name, data, bucket)

    monkeypatch.setattr(Machine, "put", putting)
    return broken


def test_outputs_that_only_a_stopped_machine_holds_stay_there(unsavable: list[bool]) -> None:
    def mended(stage: Acting) -> None:
        """The bucket takes them now, but somebody has stopped the machine to save money."""
        unsavable.clear()
        stage.net.deliver(_json("POST", f"{PARENT}/{NODE}:stop", {}))

    history, _ = acted(RUN, Act(0, "run", "desk"), Act(300, "run", "desk"), breaks={200.0: mended})
    assert exits(history) == [LEFT_OVER, LEFT_OVER]
    assert NODE in standing(history)
    assert "is STOPPED: what its disk holds" in history.ends[-1].document["remains"][0]["why"]


@pytest.mark.parametrize("nth", [2, 3], ids=["while the record's machine is looked at", "while all is looked at"])
def test_an_interruption_before_the_machine_of_an_open_run_is_known_saves_first(nth: int) -> None:
    again = Act(200, "run", "desk", signal("tpu.nodes.get", nth))
    history, _ = acted(DELETING, Act(0, "run", "desk", IN_TRAINING), again, program=LONG)
    assert exits(history) == [INTERRUPTED]
    assert history.problems == []
    assert saved(history)
    assert standing(history) == set()


def test_another_source_is_trained_once_an_ended_run_was_finished() -> None:
    killed = Act(0, "run", "desk", death("tpu.nodes.delete", "commit"))
    history, _ = acted(RUN, killed, Act(200, "run", "desk", source=OTHER))
    assert exits(history) == [0]
    assert len({each.run_id for each in history.started}) == 2
    assert history.ends[-1].document["run_id"] == history.started[-1].run_id


def test_a_run_that_went_on_with_an_edited_file_is_known_again() -> None:
    def edited(site: Site) -> Site:
        trained = site.environment.train.model_copy(update={"env": {"LR": "0.1"}})
        return replace(site, environment=site.environment.model_copy(update={"train": trained}))

    def lost(stage: Acting) -> None:
        stage.net.deliver(Request("DELETE", f"{PARENT}/{NODE}"))

    acts = (
        Act(0, "run", "desk", IN_TRAINING),
        Act(220, "run", "desk", IN_TRAINING, edit=edited),
        Act(400, "run", "desk", edit=edited),
    )
    history, _ = acted(RUN, *acts, program=Program(steps=600, every=10, step_s=1.0), breaks={210.0: lost})
    assert exits(history) == [0]
    assert len(history.started) == 2


class OldLooks(Acting):
    """The second controller's first looks show the node as it was before it was made anew."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        deliver, lost, told = self.net.deliver, list[Reply](), list[Reply]()

        def delivered(request: Request) -> Reply:
            reply = deliver(request)
            if request.verb != "GET" or not request.path.endswith(f"/{NODE}") or reply.status != 200:
                return reply
            if json.loads(reply.body)["state"] == "PREEMPTED":
                lost[:] = [reply]
            elif request.headers.get("x-author") == "2" and lost and len(told) < 3:
                told.append(reply)
                return lost[0]
            return reply

        self.net.deliver = delivered  # type: ignore[method-assign]


def test_old_looks_end_no_machine_that_was_made_anew() -> None:
    def killed(stage: Acting) -> None:
        stage.lives[0].alive = False
        stage.lives[0].struck.set()

    schedule = replace(RUN, faults=(TAKEN,))
    acts = (Act(0, "run", "desk"), Act(41, "up", "desk"))
    history, stage = acted(schedule, *acts, program=LONG, breaks={40.0: killed}, stage=OldLooks)
    assert history.problems == []
    assert stage.alive


def test_a_node_that_one_look_did_not_show_goes_on_costing() -> None:
    def unseen(stage: Acting) -> None:
        """Connections break, and the look that follows shows no node."""
        deliver, hidden = stage.net.deliver, [True]

        def delivered(request: Request) -> Reply:
            if hidden and request.verb == "GET" and request.path.endswith(f"/{NODE}"):
                hidden.clear()
                return deliver(Request("GET", f"{PARENT}/nothing-there"))
            return deliver(request)

        stage.net.deliver = delivered  # type: ignore[method-assign]
        for machine in stage.played.machines.values():
            machine.drop(0.0)

    costs = [
        acted(RUN, Act(0, "run", "desk"), program=LONG, breaks=breaks)[0].ends[-1].document["cost_usd"]
        for breaks in ({}, {60.0: unseen})
    ]
    assert costs[1] == pytest.approx(costs[0], rel=0.02)


def test_a_record_whose_write_was_interrupted_is_written_over_by_its_own_writer() -> None:
    """Of each write of a run the next ones follow on it, wherever the signal came."""
    for nth in range(1, 24):
        history, stage = acted(RUN, Act(0, "run", "desk", signal("storage.objects.insert", nth)))
        assert exits(history)[-1] in {0, INTERRUPTED}, nth
        assert stage.record is None or stage.record["state"] == "running" or standing(history) == set(), nth


def test_who_is_told_to_end_before_it_would_be_refused_touches_nobody_else_s_run() -> None:
    for call in range(25, 75, 3):
        other = Act(200, "run", "bobs", Doom(call, ANY, same_host=True, signal=True), source=OTHER)
        _, stage = acted(DELETING, Act(0, "run", "desk", detach=True), other, program=LONG)
        assert stage.alive, call
        assert stage.lease["keeper"], call


def test_unsaved_outputs_stay_where_the_machine_stops_while_it_is_asked(unsavable: list[bool]) -> None:
    def silent(stage: Acting) -> None:
        unsavable.clear()
        for machine in stage.played.machines.values():
            machine.refused_until = 1e9

    def stopped(stage: Acting) -> None:
        stage.net.deliver(_json("POST", f"{PARENT}/{NODE}:stop", {}))

    acts = (Act(0, "run", "desk"), Act(300, "run", "desk"))
    history, _ = acted(RUN, *acts, breaks={200.0: silent, 305.0: stopped})
    assert exits(history) == [LEFT_OVER, LEFT_OVER]
    assert NODE in standing(history)


@pytest.mark.parametrize("told", [False, True], ids=["killed", "told to end"])
@pytest.mark.parametrize("again_s", [920, 1200], ids=["while it is made", "once it stands"])
def test_up_leaves_no_lease_to_a_machine_that_an_unfinished_up_made_anew(told: bool, again_s: int) -> None:
    def taken(stage: Acting) -> None:
        stage.net.deliver(Request("DELETE", f"{PARENT}/{NODE}"))

    first = Act(900, "up", "desk", Doom(2, "send", True, method="tpu.operations.get", signal=told))
    acts = (Act(0, "run", "desk", detach=True), first, Act(again_s, "up", "desk"))
    history, stage = acted(replace(RUN, profile=REALISTIC), *acts, program=LONG, breaks={800.0: taken})
    assert exits(history)[-1] == 0
    assert stage.lease is None


def test_a_lease_that_was_kept_for_one_run_is_not_given_back_for_the_next() -> None:
    def ended(stage: Acting) -> None:
        for machine in stage.played.machines.values():
            machine.end(Exit(1, 0))

    kept = set()
    for call in range(72, 82):
        acts = (
            Act(0, "run", "desk", detach=True),
            Act(200, "run", "desk", Doom(call, ANY, same_host=True), source=OTHER),
            Act(230, "run", "desk", signal("storage.objects.insert", 5), source=OTHER),
        )
        _, stage = acted(RUN, *acts, program=LONG, breaks={190.0: ended})
        kept.add(((stage.lease or {}).get("keeper") or {}).get("run_id", "") if stage.alive else "")
        assert not stage.alive or stage.record["source"] == OTHER.digest
    assert kept == {""}


def test_an_up_that_finds_all_standing_lets_go_of_a_killed_one_s_lease() -> None:
    for same_host in (True, False):
        killed = Act(0, "up", "desk", Doom(1, "send", True, method="storage.objects.delete"))
        again = Act(30, "up", "desk" if same_host else "elsewhere")
        history, stage = acted(RUN, killed, again)
        assert exits(history) == [0]
        assert stage.lease is None
        assert standing(history) == {NODE, VM}


@pytest.mark.parametrize("for_s", [5.0, 90.0])
def test_a_network_that_comes_back_ends_no_supervision(for_s: float) -> None:
    def unplugged(stage: Acting) -> None:
        exchange, back_at = stage.net.exchange, stage.net.now() + for_s

        async def lost(request: Request) -> Reply:
            reply = await exchange(request)
            return reply if stage.net.now() > back_at else reply._replace(drop=True)

        stage.net.exchange = lost  # type: ignore[method-assign]
        for machine in stage.played.machines.values():
            machine.drop(for_s)

    history, _ = acted(RUN, Act(0, "run", "desk"), program=LONG, breaks={60.0: unplugged})
    assert exits(history) == [0]
    assert len(history.started) == 1


class Deaf(Acting):
    """The record's first write is made, and neither its reply nor that of any repetition comes."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        exchange, lost = self.net.exchange, list[Request]()

        async def exchanged(request: Request) -> Reply:
            reply = await exchange(request)
            if "upload" in request.path and b"/run.json" in request.body and len(lost) < 6:
                lost.append(request)
                return reply._replace(drop=True)
            return reply

        self.net.exchange = exchanged  # type: ignore[method-assign]


@pytest.mark.parametrize("nth", range(2, 10))
def test_who_is_told_to_end_while_no_reply_comes_is_not_taken_over_by_itself(nth: int) -> None:
    history, _ = acted(DELETING, Act(0, "run", "desk", signal("storage.objects.insert", nth)), stage=Deaf)
    assert exits(history) == [INTERRUPTED]
    assert standing(history) == set()
