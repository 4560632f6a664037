"""What has to hold after every schedule, whatever struck: measured on the cloud itself, not on what the product says.

Names P1 to P10 are those of the measures. Each function returns what is wrong, in words; nothing means that it holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime

from tests.simulation.history import History
from tests.simulation.loop import EPOCH
from tests.simulation.schedules import STALL_S
from tests.simulation.troubles import BILLING, DONE, GAVE_UP, TRAINING, VM

BUSY = 7
NOTICED_S = 20.0
"""How much later than the file says a silence may be noticed: looks are a quarter of its limit apart."""


def violations(history: History) -> list[str]:
    """Every property that does not hold, in words."""
    found = list(history.problems)
    for each in _ALL:
        found += [f"{each.__name__}: {problem}" for problem in each(history)]
    return found


def p1_what_stands_is_what_the_report_names(history: History) -> Iterator[str]:
    """The last report names exactly what stands, as kept or as remaining; an end without a report leaves nothing."""
    stands, document = standing(history), history.last.document
    if not document:
        touched = any(event.kind == "lease.taken" and who == history.last.life.pid for who, event in history.events)
        if stands and touched and history.last.exit_code != BILLING:
            yield f"{history.last.error} is all that is said, and there stand {sorted(stands)}"
        return
    named = {left["name"] for left in (*document["kept"], *document["remains"]) if left["kind"] in {"node", "vm"}}
    unseen = {left["name"] for left in (*document["remains"], *document["kept"]) if "nobody could look" in left["why"]}
    if {"vm-taken", "stranger"} & set(history.schedule.kinds):
        unseen |= {VM}  # it may have gone after the report
    if any(left["kind"] == "outputs" for left in document["remains"]):
        named |= stands  # the machine that holds unsaved outputs is what remains
    if stands ^ named - (unseen - stands):
        yield f"there stand {sorted(stands)}, but the report names {sorted(named)}"
    if document["remains"] and history.last.exit_code != BILLING:
        yield f"something remains, and the exit code is {history.last.exit_code}"


def p1_nothing_is_left_that_the_file_says_to_delete(history: History) -> Iterator[str]:
    """By the file's word for this kind of end."""
    stands, code = standing(history), history.last.exit_code
    word = history.schedule.environment["teardown"]["success" if code == DONE else "failure"]
    if history.last.document and word == "delete" and code != BILLING and stands:
        yield f"exit {code}, and {sorted(stands)} stand though the file says delete"
    if history.last.document and word == "keep" and code in {DONE, TRAINING} and not stands:
        yield "the file says keep, and nothing stands"
    if history.open_operations:
        yield f"operations are still under way: {history.open_operations}"


def seconds(at: str) -> float:
    """Epoch seconds of an event."""
    return datetime.fromisoformat(at).timestamp()


def standing(history: History) -> set[str]:
    """Names of our nodes and VMs after the end."""
    return {key.rpartition("/")[2] for key in (*history.nodes, *history.vms)}


def p3_down_takes_the_rest_away(history: History) -> Iterator[str]:
    """With no more faults, `down` leaves nothing."""
    if history.after_down != {"left": [], "remains": []}:
        yield f"after down: {history.after_down}"


def p4_what_is_not_ours_is_untouched(history: History) -> Iterator[str]:
    """Decoys are as they were, and no change was even asked of them."""
    for name, before in history.decoys.items():
        if history.decoys_after.get(name) != before:
            yield f"{name} was {before}, is {history.decoys_after.get(name)}"


def p7_changes_are_bounded(history: History) -> Iterator[str]:
    """No more creations, deletions, stops and starts than machines lost, recoveries, faults and controllers explain."""
    made = Counter(row["method"] for row in history.requests if row["mutating"] and row["service"] != "storage")
    begun = {node for node in (row["resource"] for row in history.requests) if node}
    assert begun
    reasons = len(history.schedule.faults) + len(history.schedule.dooms)
    for method, count in made.items():
        if method.startswith(("tpu.", "compute.")) and count > _decoys(method) + 2 * (1 + reasons):
            yield f"{count} calls of {method} with {reasons} reasons"
    refused = [row for row in history.requests if row["mutating"] and row["status"] in {400, 401, 403}]
    for (method, resource), count in Counter((row["method"], row["resource"]) for row in refused).items():
        if count > 1 + len(history.schedule.dooms):
            yield f"{method} of {resource} was refused {count} times and asked again"


def _decoys(method: str) -> int:
    return 4 if method in {"tpu.nodes.create", "compute.instances.insert", "compute.instances.delete"} else 0


def p8_the_end_is_one_that_the_script_permits(history: History) -> Iterator[str]:
    """The exit code is permitted by the oracle, agrees with the report, and names a cause where it is no success."""
    last, schedule = history.last, history.schedule
    if last.exit_code not in schedule.permitted:
        said = last.error or last.document.get("cause", "")
        yield f"exit {last.exit_code} ({said}), permitted are {sorted(schedule.permitted)} for {schedule.kinds}"
    if last.document and last.exit_code not in {DONE} and not (last.document["cause"] or last.document["remains"]):
        yield f"exit {last.exit_code} without a cause"
    for end in history.ends:
        # Who stood still finds its time for retries spent, and may give up; what stands it then names as remaining.
        gives_up = {GAVE_UP} | ({BILLING} if end.document.get("remains") else set())
        allowed = schedule.permitted | {BUSY} | (gives_up if end.life.stood_still else set())
        if end is not last and end.exit_code not in allowed:
            yield f"an earlier controller ended with {end.exit_code}: {end.error or end.document.get('cause')}"


def p8_a_bug_is_never_paid_for(history: History) -> Iterator[str]:
    """What only a person can mend is not retried."""
    if not {"bug", "setup"} & set(history.schedule.kinds) or history.schedule.dooms:
        return
    kills = sum(1 for fault in history.faults if "kill" in fault["do"] and fault["fired_at"] is not None)
    if len(history.started) > 1 + kills:
        yield f"{len(history.started)} attempts for a program that cannot work"


def p8_success_means_trained(history: History) -> Iterator[str]:
    """A run that ends well reached its last step, and its results are in the bucket."""
    if history.last.exit_code != DONE:
        return
    run_id = history.last.document.get("run_id", "")
    steps = history.schedule.program.steps
    logs = [bytes(start.record.log) for start in history.started if start.run_id == run_id]
    if not any(f"step={steps} ".encode() in log for log in logs):
        yield f"done, but run {run_id!r} never reached step {steps}"
    saved = [name for name in history.objects if re.search(rf"/runs/{run_id}/saved/outputs/metrics\.json$", name)]
    if not saved:
        yield "done, but the outputs are not in the bucket"


def p8_silence_is_noticed_and_nothing_else_is_taken_for_it(history: History) -> Iterator[str]:
    """A program that hangs is ended in time, unless its machine went before; one that works is never ended for it."""
    hung = [fault["fired_at"] for fault in history.faults if "hang" in fault["do"] and fault["fired_at"] is not None]
    noticed = [at for _, event in history.events if event.kind == "train.stalled" for at in [seconds(event.at)]]
    if noticed and not hung:
        yield f"a training that never hung was taken for stalled at {noticed}"
    if history.last.exit_code != DONE or history.schedule.dooms:
        return
    helped = [*noticed, *(EPOCH + start.at for start in history.started)]
    for at in hung:
        if not any(at <= when <= at + STALL_S + NOTICED_S for when in helped):
            yield f"hung at {at}, noticed at {noticed}"


def p9_training_goes_on_from_its_last_checkpoint(history: History) -> Iterator[str]:
    """No attempt begins before the newest complete checkpoint of anything this life trained."""
    newest = 0
    closed: set[str] = set()
    for start in history.started:
        newest = max(newest, start.checkpoint) if start.run_id not in closed else newest
        first = start.record.first_step
        if first is not None and start.attempt > 1 and first < start.checkpoint:
            yield f"attempt {start.attempt} began at step {first}, the checkpoint is {start.checkpoint}"
    runs = [start.run_id for start in history.started]
    fresh = len(set(runs))
    if fresh > 1 and not history.schedule.dooms:
        yield f"one command trained {fresh} runs: {sorted(set(runs))}"
    attempts = [(start.run_id, start.attempt) for start in history.started]
    if len(set(attempts)) != len(attempts):
        yield f"an attempt was started twice: {attempts}"


def p10_the_record_is_closed(history: History) -> Iterator[str]:
    """After a complete end nobody holds the lease."""
    if not history.last.document:
        return  # it never took the lease: somebody else's waits for its expiry
    held = [name for name in history.objects if name.endswith("/lease.json")]
    if held:
        yield f"the lease is still held after the end: {held}"


def every_fault_that_could_fire_did(history: History) -> Iterator[str]:
    """A run that ended well met all that waited for a step (a fault that never strikes proves nothing)."""
    if history.last.exit_code != DONE or history.schedule.dooms:
        return
    for fault in history.faults:
        if "step" in fault["on"] and fault["fired_at"] is None:
            yield f"never fired: {fault['on']} {fault['do']}"


_ALL: tuple[Callable[[History], Iterator[str]], ...] = (
    p1_what_stands_is_what_the_report_names,
    p1_nothing_is_left_that_the_file_says_to_delete,
    p3_down_takes_the_rest_away,
    p4_what_is_not_ours_is_untouched,
    p7_changes_are_bounded,
    p8_the_end_is_one_that_the_script_permits,
    p8_a_bug_is_never_paid_for,
    p8_success_means_trained,
    p8_silence_is_noticed_and_nothing_else_is_taken_for_it,
    p9_training_goes_on_from_its_last_checkpoint,
    p10_the_record_is_closed,
    every_fault_that_could_fire_did,
)
