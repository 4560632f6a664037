"""The mutants: guards of the product taken out by hand, each with what has to notice that it is gone.

`python -m tests.simulation.mutants` tries them all and prints the list.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.core_cloud import CoreCompute, CoreStorage
from tests.simulation.notices import BROKEN, Notice, kill, last_kill, life, looks, meeting, pause
from tests.simulation.test_two_controllers import run_down, run_run, stale, up_up
from tpuops.cloud import client
from tpuops.cloud.client import GoogleCloud
from tpuops.diagnosis.verdict import Decision, Move
from tpuops.errors import Busy
from tpuops.lifecycle import ends, run, session, story, supervise
from tpuops.resources import Owned
from tpuops.stages import apply, holders, lease, recover, teardown, watch
from tpuops.stages.collect import Collected

Mutant = Callable[[pytest.MonkeyPatch], None]


def everything_is_ours(patch: pytest.MonkeyPatch) -> None:
    """Deletion asks for no owner."""
    patch.setattr(Owned, "owns", lambda self, labels: True)


def nobody_waits_for_a_deletion(patch: pytest.MonkeyPatch) -> None:
    """A name is taken for free as soon as its deletion was asked for."""

    async def at_once(*_: Any) -> None:
        return None

    patch.setattr(apply, "_finish", at_once)
    patch.setattr(apply, "_gone", at_once)


def there_is_no_fence(patch: pytest.MonkeyPatch) -> None:
    """A controller that lost the lease goes on."""

    async def never_lost(self: lease.Lease) -> None:
        """Whatever became of the lease."""

    patch.setattr(lease.Lease, "check", never_lost)


def the_lease_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the lease gets it."""
    patch.setattr(lease, "_is_free", lambda seen, me: True)


def a_lease_counts_from_its_reply(patch: pytest.MonkeyPatch) -> None:
    """Who stood still while it asked believes that it holds the lease."""
    made = lease.Lease.__init__

    def later(self: lease.Lease, store: Any, name: str, me: Any, clock: Any, held: lease.Held) -> None:
        made(self, store, name, me, clock, replace(held, since=clock.elapsed()))

    patch.setattr(lease.Lease, "__init__", later)


def nothing_is_ever_given_up(patch: pytest.MonkeyPatch) -> None:
    """Every failure is restarted, at most thirty times."""
    made = ends.decide

    def again(verdict: Any, shape: Any, past: Any, budgets: Any, **more: Any) -> Decision:
        decision = made(verdict, shape, past, budgets, **more)
        hopeless = decision.move is Move.GIVE_UP and len(past) < 30
        return Decision(Move.RESTART, "never give up", budget="infrastructure") if hopeless else decision

    patch.setattr(ends, "decide", again)


def nothing_is_collected(patch: pytest.MonkeyPatch) -> None:
    """Outputs are called saved without a look."""

    async def pretend(*_: Any) -> Collected:
        return Collected((), ())

    patch.setattr(session, "collect", pretend)


def each_attempt_is_a_new_run(patch: pytest.MonkeyPatch) -> None:
    """The checkpoints of earlier attempts are forgotten."""

    def anew(record: Any, node_id: str) -> Any:
        return replace(record, run_id=f"{record.run_id}x", attempt=record.attempt + 1, node_id=node_id)

    patch.setattr(supervise, "next_attempt", anew)


def a_joined_run_is_begun_again(patch: pytest.MonkeyPatch) -> None:
    """A controller that comes second starts a run of its own."""
    way = session.runs.Way(session.runs.Entry.BEGIN, "never mind what is there")
    patch.setattr(session.runs, "enter", lambda *_: way)


def teardown_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Deletion is reported and not done."""

    async def nothing(*_: Any) -> None:
        await asyncio.sleep(0)

    patch.setattr(teardown, "delete_vm", nothing)


def capacity_is_asked_for_once(patch: pytest.MonkeyPatch) -> None:
    """One refusal for lack of capacity ends the run."""
    patch.setattr(recover, "CAPACITY_WAITS_S", ())


def a_change_is_repeated_without_the_fence(patch: pytest.MonkeyPatch) -> None:
    """A retry of a creation believes what was true a minute ago."""
    patch.setattr(GoogleCloud, "guarded", lambda self, fence: self)


def an_end_that_nobody_saw_is_trained_again(patch: pytest.MonkeyPatch) -> None:
    """A closed run is over, whether or not anybody was told."""

    async def nobody(story: Any) -> None:
        """Nothing is ever untold."""

    patch.setattr(run, "untold", nobody)


def the_lease_is_never_given_back(patch: pytest.MonkeyPatch) -> None:
    """It is left to expire."""

    async def nothing(self: lease.Lease) -> None:
        """Keep it."""

    patch.setattr(lease.Lease, "release", nothing)


def who_comes_first_does_not_matter(patch: pytest.MonkeyPatch) -> None:
    """Objects are written whatever generation stands there."""
    made = CoreStorage.write

    async def over(self: CoreStorage, bucket: str, name: str, data: bytes, if_generation: int | None) -> Any:
        return await made(self, bucket, name, data, None)

    patch.setattr(CoreStorage, "write", over)


def whoever_died_here_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A dead process of this host keeps its lease."""
    patch.setattr(lease, "is_dead", lambda holder, host: False)


def everybody_here_is_dead(patch: pytest.MonkeyPatch) -> None:
    """A living process of this host loses its lease."""
    patch.setattr(lease, "is_dead", lambda holder, host: holder.host == host)


def the_tpu_is_forgotten_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """Teardown deletes the VM alone."""

    async def nothing(*_: Any) -> None:
        await asyncio.sleep(0)

    patch.setattr(teardown, "delete_node", nothing)


def an_attempt_is_numbered_as_the_one_before(patch: pytest.MonkeyPatch) -> None:
    """Attempts are not told apart."""
    patch.setattr(supervise, "next_attempt", lambda record, node_id: replace(record, node_id=node_id))


def a_lost_lease_is_taken_for_an_error_of_the_machine(patch: pytest.MonkeyPatch) -> None:
    """A lease of another's is renewed over."""

    async def ours(self: lease.Lease, wanted: holders.Holder | None = None) -> bool:
        found = await self._store.read(self._name)
        self._generation = 0 if found is None else found.stat.generation
        return True

    patch.setattr(lease.Lease, "_is_there", ours)


def whoever_comes_later_lists_no_key(patch: pytest.MonkeyPatch) -> None:
    """A machine's keys are those it was made with."""

    async def nothing(*_: Any) -> None:
        await asyncio.sleep(0)

    patch.setattr(run, "let_in", nothing)


def nobody_says_stop(patch: pytest.MonkeyPatch) -> None:
    """An order to end the run is not read."""

    async def none(*_: Any) -> None:
        """No order."""

    patch.setattr(supervise, "ordered", none)


def one_old_look_is_believed(patch: pytest.MonkeyPatch) -> None:
    """A node that is not shown is gone at once."""

    async def gone(story: Any) -> bool:
        return False

    patch.setattr(supervise, "_stands", gone)


def an_answer_that_was_only_planned_counts_as_tried(patch: pytest.MonkeyPatch) -> None:
    """What an earlier controller noted and did not carry out is not taken back."""
    patch.setattr(ends, "_take_back", lambda story: None)


def silence_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A program may say nothing for ever."""
    patch.setattr(story, "stall_limits", lambda environment: None)


def whose_lease_is_lost_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Who may not end a stalled program goes on listening to it."""
    made = watch._mind

    async def patiently(*given: Any) -> None:
        try:
            await made(*given)
        except Busy:
            await asyncio.get_running_loop().create_future()

    patch.setattr(watch, "_mind", patiently)


def a_request_has_no_name(patch: pytest.MonkeyPatch) -> None:
    """Compute Engine cannot tell a repeated creation from a new one."""
    made = CoreCompute.insert

    async def nameless(self: CoreCompute, spec: Any, request_id: str) -> str:
        return await made(self, spec, str(uuid.uuid4()))

    patch.setattr(CoreCompute, "insert", nameless)


def what_has_our_name_is_an_error(patch: pytest.MonkeyPatch) -> None:
    """After a lost reply nobody looks whether the creation took effect."""
    patch.setattr(client, "_adopted", lambda found, spec: False)


def passing_faults_are_final(patch: pytest.MonkeyPatch) -> None:
    """No call is repeated."""

    async def once(ask: Any, clock: Any) -> Any:
        return await ask()

    patch.setattr(client, "repeatedly", once)


MUTANTS: dict[Mutant, Notice] = {
    everything_is_ours: life(149),
    nobody_waits_for_a_deletion: life(1),
    there_is_no_fence: life(7),
    the_lease_is_ignored: life(172),
    a_lease_counts_from_its_reply: pause("storage.objects.insert"),
    nothing_is_ever_given_up: life(21),
    nothing_is_collected: life(0),
    each_attempt_is_a_new_run: life(0),
    a_joined_run_is_begun_again: kill("run", "send", "storage.objects.list"),
    teardown_is_forgotten: life(0),
    capacity_is_asked_for_once: life(13),
    a_change_is_repeated_without_the_fence: pause("compute.instances.get", BROKEN, BROKEN, call=4),
    an_end_that_nobody_saw_is_trained_again: last_kill("run", 4),
    the_lease_is_never_given_back: life(0),
    who_comes_first_does_not_matter: meeting(up_up),
    whoever_died_here_is_waited_for: kill("up", "send", "tpu.nodes.create"),
    everybody_here_is_dead: meeting(run_run),
    the_tpu_is_forgotten_at_the_end: life(0),
    an_attempt_is_numbered_as_the_one_before: life(0),
    a_lost_lease_is_taken_for_an_error_of_the_machine: meeting(stale),
    whoever_comes_later_lists_no_key: life(22),
    nobody_says_stop: meeting(run_down),
    one_old_look_is_believed: looks,
    an_answer_that_was_only_planned_counts_as_tried: kill("run with stop and start", "send", "tpu.nodes.stop"),
    passing_faults_are_final: life(0),
    silence_is_ignored: life(1),
    whose_lease_is_lost_waits_for_ever: life(323),
}
"""Each with who notices."""

EQUIVALENT: dict[Mutant, str] = {
    a_request_has_no_name: "a creation under a deterministic name is refused while the first one stands",
    what_has_our_name_is_an_error: "that refusal is answered with a look of its own, which asks for our labels",
}
"""Guards that stand behind another one: nobody can notice that one of the two is gone, and why."""


def tried(mutant: Mutant) -> list[str]:
    """What notices the mutant says; empty where nobody does."""
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        return MUTANTS[mutant]()


def main(words: list[str]) -> int:
    """1 where more than one of twenty lives on unnoticed."""
    caught = 0
    chosen = [mutant for mutant in MUTANTS if not words or mutant.__name__ in words]
    for mutant in chosen:
        found = tried(mutant)
        caught += bool(found)
        said = f"noticed: {found[0][:90]}" if found else "NOT NOTICED"
        print(f"{mutant.__name__:50} {(mutant.__doc__ or '').strip():70} {said}", flush=True)
    for mutant, why in () if words else EQUIVALENT.items():
        print(f"{mutant.__name__:50} {(mutant.__doc__ or '').strip():70} equivalent: {why}")
    print(f"{caught} of {len(chosen)} noticed")
    return 0 if caught >= 0.95 * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
