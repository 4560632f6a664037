"""Decisions: what only a person mends is never retried, a log alone deletes nothing, progress refills every budget."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuops.diagnosis import decide, diagnose, table
from tpuops.diagnosis.classes import CLASSES
from tpuops.diagnosis.ladder import FIXES, recorded_class, since_progress
from tpuops.diagnosis.table import BESIDE, HISTORIES, SHAPES, beside, decision_for, document, log_of
from tpuops.diagnosis.verdict import Action, Basis, Budgets, Evidence, Move, Past, Shape, Verdict, WorkerEvidence
from tpuops.facts import failures

DOCUMENT = Path(table.__file__).with_name("decisions.md")
GRPC = Verdict("grpc_unavailable", Action.RETRY_IN_PLACE, decisive_line="Socket closed")
KILLED = Verdict("native_crash", Action.RETRY_IN_PLACE, refinement="process_killed", basis=Basis.EXIT)
CRASHED = Verdict("native_crash", Action.FIX_CONFIG, basis=Basis.EXIT)
GONE = Verdict("preempted", Action.RECREATE, basis=Basis.STATE)
NAMED = Budgets({"process_killed": 2, "infrastructure": 3, "preempted": 4})
SINGLE = Shape()
POD = Shape(workers=4)


def moved(verdict, *history, shape=SINGLE, step=10, budgets=NAMED):
    past = [Past(recorded_class(verdict), action, 10) for action in history]
    return decide(verdict, shape, past, budgets, step=step)


def test_the_generated_document_is_up_to_date():
    if os.environ.get("TPUOPS_WRITE_DECISIONS"):
        DOCUMENT.write_text(document(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run with TPUOPS_WRITE_DECISIONS=1 and review the change"


@pytest.mark.parametrize("failure", CLASSES.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_no_class_on_no_shape_is_stopped_or_deleted_by_its_first_log(failure, shape):
    assert decision_for(failure, shape, ()).move not in {Move.STOP_START, Move.RECREATE}


@pytest.mark.parametrize("failure", CLASSES.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("history", HISTORIES.values(), ids=list(HISTORIES))
def test_what_only_a_person_mends_costs_nothing_in_any_history(failure, history):
    for shape in SHAPES.values():
        if failure.user_error:
            assert decision_for(failure, shape, history).move is Move.GIVE_UP


@pytest.mark.parametrize("failure", [each for each in CLASSES.values() if not each.second_chance], ids=lambda e: e.name)
@pytest.mark.parametrize("action", sorted(FIXES))
def test_an_action_for_a_person_ends_the_run_with_its_advice(failure, action):
    verdict = Verdict(failure.name, action, advice="change this")
    move = decide(verdict, Shape(), (), Budgets(), step=1)
    if failure.name not in {"healthy", "unknown", "interrupted"}:
        assert move.move is Move.GIVE_UP
        assert "change this" in move.reason


@pytest.mark.parametrize("failure", CLASSES.values(), ids=lambda each: each.name)
def test_no_history_goes_on_for_ever(failure):
    for shape in SHAPES.values():
        past = []
        for _ in range(20):
            verdict = Verdict(failure.name, failure.action)
            move = decide(verdict, shape, past, Budgets(), step=5).move
            if move in {Move.GIVE_UP, Move.FINISH}:
                break
            past.append(Past(failure.name, failure.action, 5))
        assert move in {Move.GIVE_UP, Move.FINISH}


def test_a_lost_server_is_restarted_then_the_machine_stopped_and_started_where_it_can_be():
    assert moved(GRPC).move is Move.RESTART
    assert moved(GRPC, Action.RETRY_IN_PLACE).move is Move.STOP_START
    assert moved(GRPC, Action.RETRY_IN_PLACE, Action.STOP_START).move is Move.RECREATE


@pytest.mark.parametrize("shape", [POD, Shape(spot=True), Shape(queued=True)])
def test_what_cannot_be_stopped_is_created_anew(shape):
    assert moved(GRPC, Action.RETRY_IN_PLACE, shape=shape).move is Move.RECREATE


def test_progress_between_two_failures_begins_the_ladder_anew():
    assert moved(GRPC, Action.RETRY_IN_PLACE, step=11).move is Move.RESTART


def test_failures_before_the_last_progress_are_forgotten():
    past = [Past("grpc_unavailable", Action.RETRY_IN_PLACE, 1)] * 3 + [Past("infeed_failed", Action.RETRY_IN_PLACE, 10)]
    assert decide(GRPC, SINGLE, past, NAMED, step=10).move is Move.RESTART


def test_another_class_at_the_same_step_is_no_second_time():
    past = [Past("infeed_failed", Action.RETRY_IN_PLACE, 10)]
    assert decide(GRPC, Shape(), past, NAMED, step=10).move is Move.RESTART


def test_a_process_killed_from_outside_is_restarted_on_its_own_budget():
    first = moved(KILLED)
    assert (first.move, first.budget) == (Move.RESTART, "process_killed")
    assert moved(KILLED, Action.RETRY_IN_PLACE).move is Move.RESTART
    spent = moved(KILLED, Action.RETRY_IN_PLACE, Action.RETRY_IN_PLACE)
    assert spent.move is Move.GIVE_UP
    assert "budget process_killed is spent: 2 of 2" in spent.reason


def test_a_native_crash_that_comes_back_at_once_is_not_restarted_again():
    assert moved(CRASHED).move is Move.RESTART
    assert moved(CRASHED, Action.RETRY_IN_PLACE).move is Move.GIVE_UP
    assert moved(CRASHED, Action.RETRY_IN_PLACE, step=11).move is Move.RESTART


def test_a_machine_that_the_api_calls_gone_is_created_anew_at_once():
    for shape in SHAPES.values():
        assert moved(GONE, shape=shape).move is Move.RECREATE


def test_a_preemption_that_only_a_log_tells_of_deletes_nothing():
    assert moved(Verdict("preempted", Action.RECREATE)).move is Move.RESTART


def test_fifty_preemptions_with_progress_are_a_healthy_run():
    past = [Past("preempted", Action.RECREATE, step) for step in range(0, 500, 10)]
    assert decide(GONE, Shape(spot=True), past, NAMED, step=500).move is Move.RECREATE


def test_preemptions_without_progress_end():
    past = [Past("preempted", Action.RECREATE, 10)] * 4
    decision = decide(GONE, Shape(spot=True), past, NAMED, step=10)
    assert (decision.move, decision.budget) == (Move.GIVE_UP, "preempted")


def test_a_budget_named_for_a_class_goes_before_its_family():
    budgets = Budgets({"grpc_unavailable": 1, "infrastructure": 9})
    assert moved(GRPC, budgets=budgets).budget == "grpc_unavailable"
    assert moved(GRPC, Action.RETRY_IN_PLACE, budgets=budgets).move is Move.GIVE_UP


def test_a_lost_connection_alone_only_connects_again():
    lost = Verdict("ssh_timeout", Action.WAIT_AND_RETRY, basis=Basis.EXIT)
    assert moved(lost).move is Move.RECONNECT
    assert moved(lost, Action.WAIT_AND_RETRY).after_s > 0


def test_maintenance_of_a_run_that_steps_leaves_it_alone():
    maintained = Verdict("maintenance_event", Action.NONE, basis=Basis.STATE)
    assert moved(maintained).move is Move.RECONNECT


def test_waits_for_capacity_grow_and_are_bounded():
    stocked_out = Verdict("stockout", Action.WAIT_AND_RETRY, basis=Basis.STATE)
    waits = []
    for count in range(12):
        past = [Past("stockout", Action.WAIT_AND_RETRY, 1)] * count
        waits.append(decide(stocked_out, Shape(), past, Budgets({"capacity": 99}), step=1).after_s)
    assert waits == sorted(waits)
    assert waits[0] == 60.0
    assert waits[-1] == 1800.0


def test_the_environment_may_forbid_or_limit_a_class_and_never_allow_a_users_error():
    never = Budgets(overrides={"grpc_unavailable": Move.GIVE_UP})
    assert moved(GRPC, budgets=never).move is Move.GIVE_UP
    softly = Budgets(overrides={"grpc_unavailable": Move.RESTART})
    assert moved(GRPC, Action.RETRY_IN_PLACE, budgets=softly).move is Move.RESTART
    wrong = Verdict("user_code_error", Action.FIX_CODE)
    assert moved(wrong, budgets=Budgets(overrides={"user_code_error": Move.RESTART})).move is Move.GIVE_UP
    unknown = Verdict("unknown", Action.NONE)
    assert moved(unknown).move is Move.GIVE_UP
    assert moved(unknown, budgets=Budgets(overrides={"unknown": Move.RESTART})).move is Move.RESTART


PASTS = st.lists(
    st.builds(Past, st.sampled_from(sorted(CLASSES)), st.sampled_from(sorted(Action)), st.integers(0, 50)), max_size=12
)


@given(past=PASTS, step=st.integers(0, 60))
def test_progress_empties_the_window_and_only_progress_does(past, step):
    furthest = max((each.step for each in past), default=-1)
    recent = since_progress(past, step)
    assert (recent == []) == (step > furthest or not past)
    assert all(each in past for each in recent)


@given(
    name=st.sampled_from(sorted(CLASSES)),
    action=st.sampled_from(sorted(Action)),
    basis=st.sampled_from([Basis.LOG, Basis.EXIT]),
    past=PASTS,
    step=st.integers(0, 60),
    shape=st.builds(Shape, workers=st.integers(1, 4), spot=st.booleans()),
)
def test_whatever_the_history_a_log_never_deletes_without_a_second_time(name, action, basis, past, step, shape):
    decision = decide(Verdict(name, action, basis=basis), shape, past, Budgets(default=99), step=step)
    if decision.move in {Move.STOP_START, Move.RECREATE}:
        assert any(each.failure_class == name for each in since_progress(past, step))
    if decision.move is Move.STOP_START:
        assert shape.can_stop


def hourly(verdict, *minutes, now, shape=SINGLE, budgets=NAMED):
    """The decision after recoveries so many minutes ago, each of which got further."""
    past = [
        Past(recorded_class(verdict), Action.RETRY_IN_PLACE, step, now - ago * 60.0)
        for step, ago in enumerate(minutes, start=1)
    ]
    return decide(verdict, shape, past, budgets, step=100, now=now)


def test_a_class_that_the_log_names_for_the_third_time_within_an_hour_is_met_with_the_next_rung():
    assert hourly(GRPC, 30, now=9e9).move is Move.RESTART
    assert hourly(GRPC, 90, 30, now=9e9).move is Move.RESTART
    assert hourly(GRPC, 50, 30, now=9e9).move is Move.STOP_START
    assert hourly(GRPC, 50, 30, now=9e9, shape=POD).move is Move.RECREATE


def test_what_advances_is_never_given_up_for_coming_often():
    often = (50, 40, 30, 20, 10, 5)
    assert hourly(GRPC, *often, now=9e9).move is not Move.GIVE_UP
    assert hourly(KILLED, *often, now=9e9).move is Move.RESTART
    assert hourly(GONE, *often, now=9e9).move is Move.RECREATE


def test_the_files_word_for_single_classes():
    unknown = Verdict("unknown", Action.NONE, basis=Basis.EXIT)
    restarted = Budgets({"unknown": 1}, overrides={"unknown": Move.RESTART})
    assert decide(unknown, SINGLE, (), Budgets(), step=1).move is Move.GIVE_UP
    assert decide(unknown, SINGLE, (), restarted, step=1).move is Move.RESTART
    spent = [Past("unknown", Action.RETRY_IN_PLACE, 1)]
    assert decide(unknown, SINGLE, spent, restarted, step=1).move is Move.GIVE_UP
    bug = Verdict("user_code_error", Action.FIX_CODE)
    assert decide(bug, SINGLE, (), Budgets(overrides={"user_code_error": Move.RESTART}), step=1).move is Move.GIVE_UP


def test_the_names_that_a_file_may_use_are_the_classes_that_are_there():
    assert set(failures.FOR_A_PERSON) == {name for name, each in CLASSES.items() if each.user_error}
    retried = set(CLASSES) - set(failures.FOR_A_PERSON) - {"healthy", "interrupted", "unknown"}
    assert set(failures.RETRIED) == retried


LOGGED = [each for each in CLASSES.values() if log_of(each)]


def test_the_table_has_a_log_for_every_class_that_a_log_can_name():
    assert {each.name for each in CLASSES.values()} - {each.name for each in LOGGED} == {"healthy", "unknown"}


@pytest.mark.parametrize("failure", LOGGED, ids=lambda each: each.name)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_whatever_the_log_names_a_lost_machine_is_made_anew_and_a_users_error_costs_no_retry(failure, shape):
    for known in BESIDE:
        verdict, decision = beside(failure, known, shape)
        if known == "node PREEMPTED":
            assert (verdict.failure_class, decision.move) == ("preempted", Move.RECREATE)
        elif known == "node READY":
            assert verdict.failure_class == failure.name
        if failure.user_error and known in {"node READY", "maintenance announced"}:
            assert decision.move is Move.GIVE_UP, known


@pytest.mark.parametrize("state", ["CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_a_queued_resource_that_waits_is_left_alone(state, shape):
    verdict = diagnose(Evidence((WorkerEvidence(reachable=False),), queued_state=state))
    assert (verdict.failure_class, decide(verdict, shape, (), NAMED, step=1).move) == ("stockout", Move.RECONNECT)
