"""One object in the home bucket is lock, dead-man's switch and fence.

Its holder renews it; its generation is the fencing token; its age, by the server's clock, is what others judge. A
command that only reads never touches it. A controller that lost it stops acting: `check` stands before every change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from tpuops.clock import Clock
from tpuops.cloud.port import ObjectStore, StoredObject
from tpuops.errors import Busy, Conflict, TpuopsError
from tpuops.journal import Journal
from tpuops.stages.holders import FORMAT, Holder, is_dead, keeping, kept_by_machine, parse
from tpuops.switch import Keeper, Terms

LOOK_S = 2.0
SAY_S = 60.0
"""How often waiting for one and the same holder is said."""


@dataclass(frozen=True, slots=True)
class Held:
    """Our write of the lease: its generation, and the second (`Clock.elapsed`) after which it may have been made."""

    generation: int
    since: float


class Lease:
    """A held lease. Use `take`; then `check` before each change, `release` at the end."""

    def __init__(self, store: ObjectStore, name: str, me: Holder, clock: Clock, held: Held) -> None:
        self._store, self._name, self._me, self._clock = store, name, me, clock
        self._generation, self._confirmed = held.generation, held.since
        self._lost = self._late = ""
        self._told: Callable[..., None] = lambda kind, **facts: None
        self._renewing: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._progress: Callable[[], Mapping[str, Any]] = lambda: me.progress

    def tell(self, progress: Callable[[], Mapping[str, Any]]) -> None:
        """From now on each renewal says how far we are; it costs no call of its own."""
        self._progress = progress

    def report(self, record: Callable[..., None]) -> None:
        """From now on say (as `Journal.record`) when renewing fails for half the time the lease counts, and after."""
        self._told = record

    @property
    def holder(self) -> Holder:
        """The holder this process wrote."""
        return self._me

    async def check(self) -> None:
        """Raise `Busy` unless the lease is surely still ours: stand before every change.

        One that ran out while this process or its machine stood still, or had no network, is asked for first: perhaps
        nobody took it.
        """
        if not self._lost and self._age_s() > self._me.ttl_s:
            await self._renew()
        if self._lost:
            raise Busy(f"this process lost the lease and stops acting: {self._lost}", hint="tpuops status")
        age_s = self._age_s()
        if age_s > self._me.ttl_s:
            raise Busy(f"the lease could not be renewed for {age_s:.0f} s", hint="check the network, then run again")

    def _age_s(self) -> float:
        """Seconds since we last surely had it."""
        return self._clock.elapsed() - self._confirmed

    def keep(self) -> None:
        """Renew in the background until `release`."""
        self._renewing = asyncio.get_running_loop().create_task(self._renew_forever())

    async def _renew_forever(self) -> None:
        while not self._lost:
            await self._clock.sleep(Terms(self._me.ttl_s).renew_s)
            await self._renew()

    async def _renew(self) -> None:
        async with self._writing:
            if self._lost:
                return
            try:
                await self._write(self._me)
            except TpuopsError as error:  # `check` counts the age of the last success; nothing is assumed
                self._say_late(error.message)
            else:
                self._say_back()

    def _say_late(self, why: str) -> None:
        """Once for each time that renewing fails for long: long before a reaper would act."""
        if not self._late and self._age_s() > self._me.ttl_s / 2:
            self._late = why
            acts_s = self._me.grace_s - self._age_s()
            self._told("lease.late", age_s=round(self._age_s(), 1), acts_s=round(acts_s), why=why)

    def _say_back(self) -> None:
        if self._late and not self._lost:
            self._late = ""
            self._told("lease.renewed", holder=self._me.words())

    async def _write(self, holder: Holder) -> None:
        asked = self._clock.elapsed()
        told = replace(holder, progress=dict(self._progress()))
        while not self._lost:
            try:
                stat = await self._store.write(self._name, told.data(), if_generation=self._generation)
            except Conflict:
                if await self._is_there(holder):
                    self._confirmed = asked
                    return
            else:
                self._generation, self._confirmed = stat.generation, asked
                return

    async def _is_there(self, wanted: Holder | None = None) -> bool:
        """After a 412: whether `wanted` was written, its reply lost. It may also follow an earlier write of ours, then
        ours is what is there now; anybody else's has taken the lease from us."""
        found = await self._store.read(self._name)
        there = parse(b"" if found is None else found.data)
        is_wanted = wanted is not None and (there.token, there.keeper) == (wanted.token, wanted.keeper)
        if found is not None and (is_wanted or there.token == self._me.token):
            self._generation = found.stat.generation
        else:
            self._lost = "it is gone" if found is None else f"it is held by {there.words()}"
            self._told("lease.lost", why=self._lost)
        return is_wanted

    def forget(self, but: str = "") -> None:
        """Give it back to nobody: the machine that kept it is gone, or the run for which it did has ended; one that is
        kept for the run `but` still goes back."""
        if self._me.keeper and self._me.keeper.get("run_id") != but:
            self._me, self._progress = replace(self._me, keeper={}), dict

    async def leave(self, keeper: Keeper) -> int:
        """Leave it to the machine of a run, which renews it from now on; the generation after which it does.

        We do not act any more then. Raises `Busy` where it was not ours.
        """
        await self.check()
        kept = kept_by_machine(replace(self._me, keeper=asdict(keeper)))
        async with self._writing:
            await self._write(kept)
            if self._lost:
                await self.check()
            self._lost = f"it was left to {kept.words()}"
        return self._generation

    async def release(self) -> None:
        """Delete our lease, or give it back to its machine; somebody else's is left alone."""
        if self._renewing is not None:
            async with self._writing:  # a write in flight outlives its cancellation and moves the generation on
                self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        if self._lost:
            return
        try:
            if self._me.keeper:
                await self._write(kept_by_machine(self._me))
            else:
                await self._delete()
        except TpuopsError as error:  # it expires by itself, and then the machines end themselves
            self._told("lease.unreleased", why=error.message, grace_s=self._me.grace_s)

    async def _delete(self) -> None:
        while not self._lost:
            try:
                await self._store.delete(self._name, if_generation=self._generation)
            except Conflict:
                await self._is_there()
            else:
                return


async def take(store: ObjectStore, name: str, me: Holder, clock: Clock, journal: Journal, wait_s: float = 0.0) -> Lease:
    """Take the lease, over a dead process of this host at once, over a silent holder after it expired; a living one is
    waited for `wait_s` at most. A machine that keeps it for its run gets it back: from us at the end, or by itself
    should we fall silent, unless we `forget` it.

    Raises:
        Busy: the holder lives (it renewed while we watched, or its process is on this host), or is of a later version.
    """
    first = seen = await store.read(name)
    end, said = clock.monotonic() + wait_s, ("", 0.0)
    # Counted from before the write was asked for: who stood still until its reply may have lost the lease meanwhile.
    asked = clock.elapsed()
    while True:
        if seen is not None and parse(seen.data).token == me.token:
            held = Held(seen.stat.generation, asked)  # our own write, whose reply was lost
            return _kept(Lease(store, name, parse(seen.data), clock, held), journal)
        refuse_newer(seen)
        if seen is None or _is_free(seen, me):
            with suppress(Conflict):  # somebody was faster: look at who
                asked = clock.elapsed()
                mine = me if seen is None else keeping(me, parse(seen.data))
                stat = await store.write(name, mine.data(), if_generation=0 if seen is None else seen.stat.generation)
                return _kept(Lease(store, name, mine, clock, Held(stat.generation, asked)), journal)
        else:
            if clock.monotonic() >= end:
                _refuse_if_alive(first, seen, me)
            if said[0] != parse(seen.data).token or clock.monotonic() - said[1] >= SAY_S:
                said = parse(seen.data).token, clock.monotonic()
                journal.record("lease.wait", holder=parse(seen.data).words(), age_s=seen.age_s)
        await clock.sleep(LOOK_S)
        seen = await store.read(name)
        first = first or seen


def _kept(lease: Lease, journal: Journal) -> Lease:
    lease.report(journal.record)
    lease.keep()
    return lease


def refuse_newer(seen: StoredObject | None) -> None:
    """Raise `Busy` for a lease that a later version wrote: it is not ours to judge, whatever its age."""
    if seen is not None and parse(seen.data).format > FORMAT:
        raise Busy(
            f"the lease was written by a later version of tpuops (format {parse(seen.data).format}, "
            f"this one knows {FORMAT}), for {parse(seen.data).words()}; nothing was touched",
            hint="use that version, or a later one",
        )


def _is_free(seen: StoredObject, me: Holder) -> bool:
    return is_free(seen, me.host)


def is_free(seen: StoredObject, host: str) -> bool:
    """Whether somebody on `host` may take it: it expired, a machine keeps it, or its holder ran here and ended."""
    holder = parse(seen.data)
    return seen.age_s > holder.ttl_s or holder.is_kept or is_dead(holder, host)


def _refuse_if_alive(first: StoredObject | None, seen: StoredObject, me: Holder) -> None:
    holder = parse(seen.data)
    renewed = first is not None and seen.stat.generation != first.stat.generation
    if renewed or holder.host == me.host:
        raise Busy(
            f"the environment is held by {holder.words()}",
            hint="wait for it to end (--wait SECONDS), or stop it there; `tpuops status` shows the holder",
        )
