"""The properties can fail: guards are taken out of the product by hand, and some seed must notice each time.

Each mutant stands beside a seed that noticed it, which keeps this quick; should it not do so any more, others are
tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.play import played
from tests.simulation.properties import violations
from tests.simulation.schedules import draw
from tpuops.diagnosis.verdict import Decision, Move
from tpuops.lifecycle import session, supervise
from tpuops.resources import Owned
from tpuops.stages import apply, lease, recover, teardown
from tpuops.stages.collect import Collected

Mutant = Callable[[pytest.MonkeyPatch], None]
SEEDS = 320


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
        made(self, store, name, me, clock, replace(held, since=clock.monotonic()))

    patch.setattr(lease.Lease, "__init__", later)


def nothing_is_ever_given_up(patch: pytest.MonkeyPatch) -> None:
    """Every failure is restarted, at most thirty times."""
    made = supervise.decide

    def again(verdict: Any, shape: Any, past: Any, budgets: Any, *, step: int) -> Decision:
        decision = made(verdict, shape, past, budgets, step=step)
        hopeless = decision.move is Move.GIVE_UP and len(past) < 30
        return Decision(Move.RESTART, "never give up", budget="infrastructure") if hopeless else decision

    patch.setattr(supervise, "decide", again)


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


MUTANTS: dict[Mutant, int] = {
    everything_is_ours: 149,
    nobody_waits_for_a_deletion: 1,
    there_is_no_fence: 7,
    the_lease_is_ignored: 172,
    a_lease_counts_from_its_reply: 744,
    nothing_is_ever_given_up: 21,
    nothing_is_collected: 0,
    each_attempt_is_a_new_run: 0,
    a_joined_run_is_begun_again: 72,
    teardown_is_forgotten: 0,
    capacity_is_asked_for_once: 13,
}
"""Each with a seed that is known to notice it."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_missing_guard_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    seeds = (MUTANTS[mutant], *range(SEEDS))
    assert any(noticed(seed) for seed in seeds), f"no seed noticed the mutant {mutant.__name__}"


def noticed(seed: int) -> list[str]:
    """What is wrong in a seed's life; a life that ends in no order at all is wrong too."""
    try:
        return violations(played(draw(seed)))
    except (AssertionError, TimeoutError) as error:
        return [repr(error)]
