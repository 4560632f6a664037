"""Schedules: from a seed, an environment, a training program, faults in the embedded cloud's own format, and dooms.

Each ingredient also says how the run may end because of it: that is the oracle.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.simulation.drafts import SMALL_VM, Draft, Outsider, Schedule, environment
from tests.simulation.lives import PHASES, Doom
from tests.simulation.troubles import (
    BILLING,
    CAPACITY,
    CHANGES,
    DONE,
    FORBIDDEN,
    GAVE_UP,
    INFEED,
    LIMIT,
    NODE,
    PERSON,
    QUOTA,
    READS,
    STOCKOUT,
    TRAINING,
    TRANSIENT,
    VM,
)
from tests.simulation.worker import Program

STALL_S = 60.0
"""How long a file allows a program to say nothing, where one may hang."""


def draw(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(f"lifecycle/{seed}")
    wanted = environment(
        provisioning=rng.choice(("on-demand", "on-demand", "spot")),
        vm=rng.choice(("none", SMALL_VM, SMALL_VM)),
        success=rng.choice(("delete", "delete", "delete", "keep")),
        failure=rng.choice(("delete", "delete", "keep")),
    )
    draft = Draft(rng, Schedule(seed, wanted, Program()))
    endings = (_fine, _fine, _fine, _fine, _bug, _setup, _loop, _sick, _quota, _forbidden, _stockout, _limit)
    rng.choice(endings)(draft)
    decided = draft.schedule.permitted != {DONE}
    for ingredient in rng.sample(_MILD, rng.choice((0, 1, 1, 2, 2, 3))):
        if not (decided and ingredient in _NOT_WHEN_DECIDED):
            ingredient(draft)
    if not decided and "storm" not in draft.schedule.kinds:
        _at_steps(draft, rng.choice((0, 1, 1, 2, 3)))
    if rng.random() < 0.4:
        _dooms(draft)
    if not decided and not draft.schedule.wired:
        _silence(draft)
    _sort(draft)
    return draft.schedule


def _fine(draft: Draft) -> None:
    """A program that ends well."""


def _bug(draft: Draft) -> None:
    program = replace(draft.schedule.program, bug_at=draft.rng.choice((1, 7, 14, 33, 58)))
    draft.change(program=program)
    draft.add("bug", ends=frozenset({TRAINING}))
    if program.bug_at > 20 and draft.rng.random() < 0.5:
        draft.add("kill", {"on": {"step": 13}, "do": {"kill": "train.py"}})


def _setup(draft: Draft) -> None:
    draft.change(program=replace(draft.schedule.program, setup_code=1))
    draft.schedule.environment["train"]["setup"] = [["python3", "prepare.py"]]
    draft.add("setup", ends=frozenset({TRAINING}))


def _loop(draft: Draft) -> None:
    """Killed again and again before it gets anywhere: three restarts are granted."""
    times, step = draft.rng.choice((2, 3, 4, 7)), draft.step()
    kills = [{"on": {"step": step}, "do": {"kill": "train.py"}}] * times
    draft.add(f"loop{times}", *kills, ends=frozenset({DONE if times <= 3 else GAVE_UP}), wired=False)


def _sick(draft: Draft) -> None:
    """The device breaks again and again at one step, on this machine and on every other."""
    times, step = draft.rng.choice((1, 2, 3, 5)), draft.step()
    faults = [{"on": {"step": step}, "do": {"device_fault": {"message": INFEED}}}] * times
    if draft.schedule.spot:
        ends = frozenset({DONE} if times == 1 else {GAVE_UP, TRAINING})
    else:
        ends = frozenset({DONE if times <= 2 else GAVE_UP})
    draft.add(f"sick{times}", *faults, ends=ends, wired=times == 1)


def _quota(draft: Draft) -> None:
    method = "tpu.nodes.create"
    if draft.schedule.environment["vm"] != "none" and draft.rng.random() < 0.3:
        method = "compute.instances.insert"
    refusal = {"http": 429, "status": "RESOURCE_EXHAUSTED", "message": QUOTA}
    if method.startswith("compute"):
        refusal = {"http": 403, "message": "Quota 'CPUS' exceeded. Limit: 8.0", "reason": "quotaExceeded"}
    draft.add("quota", {"on": {"method": method}, "do": {"error": refusal}}, ends=frozenset({CAPACITY}))


def _forbidden(draft: Draft) -> None:
    refusal = draft.rng.choice(FORBIDDEN)
    fault = {"on": {"method": "tpu.nodes.create"}, "do": {"error": refusal}}
    draft.add("forbidden", fault, ends=frozenset({PERSON}))


def _stockout(draft: Draft) -> None:
    """No capacity: four waits are granted."""
    times = draft.rng.choice((1, 2, 4, 5, 9))
    fault = {"on": {"method": "tpu.nodes.create"}, "do": {"fail_operation": {"code": 8, "message": STOCKOUT}}}
    ends = frozenset({DONE if times <= 4 else CAPACITY})
    draft.add(f"stockout{times}", *([fault] * times), ends=ends, wired=times == 1)


def _limit(draft: Draft) -> None:
    draft.change(program=replace(draft.schedule.program, steps=400, step_s=0.5, every=40))
    draft.schedule.environment["limits"] = {"runtime": "1m"}
    draft.add("limit", ends=frozenset({LIMIT}), wired=False)


def _at_steps(draft: Draft, count: int) -> None:
    """Faults of the machine at steps far enough apart that each is followed by progress."""
    for _ in range(count):
        kind = draft.rng.choice(("kill", "device_fault", "ssh_drop", "preempt"))
        step = draft.step()
        deed: dict[str, Any] = {
            "kill": {"kill": "train.py"},
            "device_fault": {"device_fault": {"message": INFEED}},
            "ssh_drop": {"ssh_drop": {"for_s": draft.rng.choice((0.2, 1.0, 4.0))}},
            "preempt": {"preempt": True},
        }[kind]
        draft.add(kind, {"on": {"step": step}, "do": deed})


def _silence(draft: Draft) -> None:
    """Now and then a file that allows little silence, and a program that falls silent, or does not.

    Drawn apart, for lives that are left to virtual time anyway: all others stay as their seeds made them.
    """
    rng = random.Random(f"silence/{draft.schedule.seed}")
    if rng.random() < 0.5:
        return
    draft.schedule.environment["train"]["stall"] = {"start": f"{STALL_S:.0f}s", "train": f"{STALL_S:.0f}s"}
    if rng.random() < 0.7:
        draft.rng = rng
        draft.add("hang", {"on": {"step": draft.step()}, "do": {"hang": "train.py"}}, wired=False)
    else:
        draft.add("watched", wired=False)


def _passing(draft: Draft) -> None:
    """A passing fault of a call, at most three times, which bounded retries overcome."""
    method = draft.rng.choice((*READS, *CHANGES, *CHANGES))
    if draft.schedule.environment["vm"] == "none" and method.startswith("compute.instances"):
        method = "tpu.nodes.create"
    deeds = [draft.rng.choice(TRANSIENT) for _ in range(draft.rng.choice((1, 1, 2, 3)))]
    nth = 1 if method in CHANGES else draft.rng.choice((1, 1, 2, 3))
    wired = nth == 1 and not any("delay_s" in deed for deed in deeds)
    draft.add(f"passing:{method}", *({"on": {"method": method, "nth": nth}, "do": deed} for deed in deeds), wired=wired)


def _record_lost(draft: Draft) -> None:
    """The reply to a write of lease, record or journal is lost, or the write is refused for a moment."""
    which = draft.rng.choice(("*/lease.json", "*/run.json", "*/journal/*"))
    deeds = [draft.rng.choice(TRANSIENT) for _ in range(draft.rng.choice((1, 2)))]
    on = {"method": "storage.objects.insert", "resource": which, "nth": draft.rng.choice((1, 2))}
    draft.add("record", *({"on": dict(on), "do": deed} for deed in deeds), wired=False)


def _late(draft: Draft) -> None:
    """A creation that is admitted and fails late, inside the machine room."""
    method = draft.rng.choice(("tpu.nodes.create", "compute.instances.insert"))
    if draft.schedule.environment["vm"] == "none":
        method = "tpu.nodes.create"
    failure: dict[str, Any] = {"code": 13, "message": "An internal error has occurred."}
    if method.startswith("compute"):
        failure = {
            "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
            "message": "The zone 'projects/local-sim/zones/us-central1-a' does not have enough resources available",
        }
    if any(kind.startswith("stockout") for kind in draft.schedule.kinds):
        return  # together they could outlast the waits
    draft.add("late", {"on": {"method": method}, "do": {"fail_operation": failure}})


def _storm(draft: Draft) -> None:
    """A service that fails for longer than anybody retries: giving up is allowed, being silent about it is not."""
    on: dict[str, Any] = {"method": draft.rng.choice((*READS, *CHANGES)), "nth": draft.rng.choice((1, 2, 4, 7))}
    if draft.rng.random() < 0.3:
        on = {"method": "storage.objects.insert", "resource": draft.rng.choice(("*/run.json", "*/lease.json"))}
    faults = [{"on": dict(on), "do": TRANSIENT[0]}] * draft.rng.choice((7, 15, 40))
    ends = draft.schedule.permitted | {GAVE_UP, BILLING}
    if any(kind.startswith("stockout") for kind in draft.schedule.kinds):
        ends |= {CAPACITY}  # both are waited out from one allowance
    draft.add("storm", *faults, ends=ends, wired=False)


def _undeletable(draft: Draft) -> None:
    """A deletion that is admitted and fails late; asked again, it works."""
    method = draft.rng.choice(("tpu.nodes.delete", "tpu.nodes.delete", "compute.instances.delete"))
    failure: dict[str, Any] = {"code": 13, "message": "An internal error has occurred."}
    if method.startswith("compute"):
        failure = {"code": "INTERNAL_ERROR", "message": "Internal error. Please try again or contact support."}
    if draft.schedule.environment["vm"] != "none" or method.startswith("tpu"):
        fault = {"on": {"method": method}, "do": {"fail_operation": failure}}
        draft.add("undeletable", *([fault] * draft.rng.choice((1, 1, 2))), wired=False)


def _taken_early(draft: Draft) -> None:
    """Preempted while it is being reached, or at some moment."""
    if any(kind.startswith("stockout") for kind in draft.schedule.kinds):
        return  # together they could outlast the waits
    on = draft.rng.choice(
        (
            {"method": "tpu.nodes.getGuestAttributes", "nth": draft.rng.choice((1, 2))},
            {"after_s": draft.rng.choice((1.0, 1.5, 2.5, 4.0)), "machine": NODE},
        )
    )
    draft.add("taken", {"on": on, "do": {"preempt": True}}, wired=False)


def _vm_taken(draft: Draft) -> None:
    """The machine beside the TPU is taken; the run does not need it."""
    if draft.schedule.environment["vm"] != "none" and draft.schedule.outsider is None:
        fault = {"on": {"after_s": draft.rng.choice((2.0, 3.0)), "machine": VM}, "do": {"preempt": True}}
        draft.add("vm-taken", fault, wired=False)


def _stranger(draft: Draft) -> None:
    """Somebody else's VM stands under our VM's name at the end: whatever needs a look at all of it gives up."""
    if draft.schedule.environment["vm"] != "none" and "vm-taken" not in draft.schedule.kinds:
        draft.change(outsider=Outsider(draft.rng.choice((2.0, 3.0))))
        draft.add("stranger", ends=draft.schedule.permitted | {GAVE_UP, BILLING}, wired=False)


_MILD: tuple[Callable[[Draft], None], ...] = (
    _passing,
    _passing,
    _passing,
    _record_lost,
    _storm,
    _undeletable,
    _late,
    _taken_early,
    _vm_taken,
    _stranger,
)
_NOT_WHEN_DECIDED = {_storm, _late, _taken_early, _stranger}


def _dooms(draft: Draft) -> None:
    """Controllers that are killed or stand still, each at one of its calls."""
    dooms = []
    for _ in range(draft.rng.choice((1, 1, 2, 3))):
        pause_s = draft.rng.choice((None, None, None, 20.0, 150.0))
        dooms.append(
            Doom(
                call=draft.rng.randrange(1, 45),
                phase=draft.rng.choice(PHASES if pause_s is None else PHASES[1:]),
                same_host=draft.rng.random() < 0.6 and pause_s is None,
                after_s=draft.rng.choice((0.1, 2.0, 30.0, 100.0)),
                pause_s=pause_s,
            )
        )
    permitted = draft.schedule.permitted
    if permitted & {CAPACITY, PERSON, GAVE_UP, LIMIT}:
        permitted |= {DONE}  # what decided the end may have spent itself on a controller that died
    draft.change(dooms=tuple(dooms), permitted=permitted, kinds=(*draft.schedule.kinds, f"dooms{len(dooms)}"))


def _sort(draft: Draft) -> None:
    """Step faults fire in the script's order, so they have to stand in the order of their steps."""
    faults = draft.schedule.faults
    at_steps = sorted((fault for fault in faults if "step" in fault["on"]), key=lambda fault: fault["on"]["step"])
    draft.change(faults=(*(fault for fault in faults if "step" not in fault["on"]), *at_steps))
