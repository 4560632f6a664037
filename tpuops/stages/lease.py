"""One object in the home bucket is lock, dead-man's switch and fence.

Its holder renews it; its generation is the fencing token; its age, by the server's clock, is what others judge. A
command that only reads never touches it. A controller that lost it stops acting: `check` stands before every change.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tpuops.clock import Clock
from tpuops.cloud.port import ObjectStore, StoredObject
from tpuops.errors import Busy, Conflict, TpuopsError
from tpuops.journal import Journal
from tpuops.switch import GRACE_S, TTL_S, Keeper, Terms

USUAL = Terms()
LOOK_S = 2.0
SAY_S = 60.0
"""How often waiting for one and the same holder is said."""

LONGEST_TTL_S = 600.0
FORMAT = 1
"""Of the lease object's form. One of a later format was written by a later version, whose rules we do not know."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lease, where, since when and doing what. `started` tells a process from a later one of its pid.

    `progress` is how far it was at the last renewal: JSON values for `status`, never asked by those who want the lease.
    It counts for `ttl_s` to its holder and whoever wants it, for `grace_s` to the reapers. `keeper` (`switch.Keeper`)
    stands there without a `token` where the run's own machine, `host`, renews it: nobody acts, whoever wants it has it.
    """

    token: str
    user: str
    host: str
    pid: int
    started: str
    since: str
    doing: str
    progress: Mapping[str, Any] = field(default_factory=dict)
    ttl_s: float = TTL_S
    grace_s: float = GRACE_S
    format: int = FORMAT
    keeper: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        """Whether a machine renews it for its run, and no controller acts."""
        return bool(self.keeper) and not self.token

    def words(self) -> str:
        """The holder as people say it."""
        if self.is_kept:
            return f"{self.host} itself, since {self.since}, for the run that {self.user} left there"
        return f"{self.user} on {self.host} (process {self.pid}), since {self.since}, for `{self.doing}`"

    def data(self) -> bytes:
        """The lease object's bytes."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def myself(user: str, doing: str, clock: Clock, terms: Terms = USUAL) -> Holder:
    """This process as a holder, on these terms."""
    since = clock.now().isoformat(timespec="seconds")
    me = Holder(secrets.token_hex(8), user, here(), os.getpid(), started(os.getpid()), since, doing)
    return replace(me, ttl_s=terms.ttl_s, grace_s=terms.grace_s)


def here() -> str:
    """This host, as holders name it."""
    return socket.gethostname()


def started(pid: int) -> str:
    """What tells this process from a later one of the same pid: its start in kernel ticks and the boot, "" if gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return _started_without_proc(pid)
    state, ticks = stat.rpartition(")")[2].split()[0], stat.rpartition(")")[2].split()[19]
    return "" if state == "Z" else f"{boot}/{ticks}"


def _started_without_proc(pid: int) -> str:
    """Outside Linux only the pid itself can be asked for."""
    if Path("/proc/self").exists():
        return ""
    with suppress(OSError):
        os.kill(pid, 0)
        return "alive"
    return ""


@dataclass(frozen=True, slots=True)
class Held:
    """Our write of the lease: its generation, the second (`Clock.elapsed`) after which it may have been made, and the
    lease of the machine that kept it `before`."""

    generation: int
    since: float
    before: bytes = b""


class Lease:
    """A held lease. Use `take`; then `check` before each change, `release` at the end."""

    def __init__(self, store: ObjectStore, name: str, me: Holder, clock: Clock, held: Held) -> None:
        self._store, self._name, self._me, self._clock = store, name, me, clock
        self._generation, self._confirmed, self._before = held.generation, held.since, held.before
        self._lost = self._late = ""
        self._told: Callable[..., None] = lambda kind, **facts: None
        self._renewing: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._progress: Callable[[], Mapping[str, Any]] = dict

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
        if self._lost:
            self._told("lease.lost", why=self._lost)
        elif self._late:
            self._late = ""
            self._told("lease.renewed", holder=self._me.words())

    async def _write(self, holder: Holder) -> None:
        asked = self._clock.elapsed()
        told = replace(holder, progress=dict(self._progress()))
        try:
            stat = await self._store.write(self._name, told.data(), if_generation=self._generation)
        except Conflict:
            await self._look_again(holder, asked)
        else:
            self._generation, self._confirmed = stat.generation, asked

    async def _look_again(self, holder: Holder, asked: float) -> None:
        """A 412 after a lost reply may be our own write: the token decides."""
        found = await self._store.read(self._name)
        there = parse(b"" if found is None else found.data)
        if found is not None and (there.token, there.keeper) == (holder.token, holder.keeper):
            self._generation, self._confirmed = found.stat.generation, asked
        else:
            self._lost = "it is gone" if found is None else f"it is held by {there.words()}"

    async def leave(self, machine: str, keeper: Keeper) -> int:
        """Leave it to the machine of a run, which renews it from now on; the generation after which it does.

        We do not act any more then. Raises `Busy` where it was not ours.
        """
        await self.check()
        since = self._clock.now().isoformat(timespec="seconds")
        kept = replace(self._me, token="", host=machine, pid=0, started="", since=since, keeper=asdict(keeper))
        async with self._writing:
            await self._write(kept)
            if self._lost:
                await self.check()
            self._lost = f"it was left to {kept.words()}"
        return self._generation

    async def release(self, *, back: bool = False) -> None:
        """Delete our lease, or give it `back` to the machine that kept it; somebody else's is left alone."""
        if self._renewing is not None:
            async with self._writing:  # a write in flight outlives its cancellation and moves the generation on
                self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        if not self._lost:
            try:
                if back and self._before:
                    await self._store.write(self._name, self._before, if_generation=self._generation)
                else:
                    await self._store.delete(self._name, if_generation=self._generation)
            except TpuopsError as error:  # it expires by itself, and then the machines end themselves
                self._told("lease.unreleased", why=error.message, grace_s=self._me.grace_s)


def parse(data: bytes) -> Holder:
    """Read a holder, of this version or of another: what only that one knows is passed over.

    Unreadable bytes are a holder nobody knows, who expires like any other.
    """
    try:
        told = json.loads(data)
        holder = Holder(**{each.name: told[each.name] for each in fields(Holder) if each.name in told})
        return holder if _is_sound(holder) else NOBODY
    except (ValueError, TypeError):
        return NOBODY


def _is_sound(holder: Holder) -> bool:
    """Whether the numbers are numbers: they decide when somebody else may act."""
    numbers = (holder.ttl_s, holder.grace_s, holder.format, holder.pid)
    return (
        isinstance(holder.keeper, dict)
        and all(isinstance(each, int | float) for each in numbers)
        and 0 < holder.ttl_s <= LONGEST_TTL_S
    )


NOBODY = Holder("", "unknown", "unknown", 0, "", "unknown", "unknown")


def is_dead(holder: Holder, host: str) -> bool:
    """Whether the holder surely ended: it ran on this host and its process is not there any more."""
    return holder.host == host and holder.started != started(holder.pid)


async def take(store: ObjectStore, name: str, me: Holder, clock: Clock, journal: Journal, wait_s: float = 0.0) -> Lease:
    """Take the lease, over a dead process of this host at once, over a silent holder after it expired.

    A holder that lives is waited for, `wait_s` at most.

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
            return _kept(Lease(store, name, me, clock, held), journal)
        refuse_newer(seen)
        if seen is None or _is_free(seen, me):
            with suppress(Conflict):  # somebody was faster: look at who
                asked = clock.elapsed()
                stat = await store.write(name, me.data(), if_generation=0 if seen is None else seen.stat.generation)
                before = seen.data if seen is not None and parse(seen.data).is_kept else b""
                return _kept(Lease(store, name, me, clock, Held(stat.generation, asked, before)), journal)
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
