"""lock.show and lock.break: who holds an environment's lease, and how to take it away from a holder that hangs.

Breaking is taking over: our own holder is written over the generation that was looked at, so the old one fails at its
next renewal; and it is released only when the old one's own count has run out as well, so that nobody acts beside it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tpuops.cloud.port import StoredObject
from tpuops.errors import Busy, Conflict
from tpuops.lifecycle.consent import Agree
from tpuops.lifecycle.site import Site
from tpuops.stages import holders, lease

TRIES = 3


@dataclass(frozen=True, slots=True)
class Lock:
    """The lease as it stands; `holder` is None where nobody has it. Ages are seconds by the server's clock.

    `acts` says whether the holder may still act; `waited_s` is how long a break waited for that to end.
    """

    holder: holders.Holder | None = None
    generation: int = 0
    age_s: float = 0.0
    acts: bool = False
    broken: bool = False
    waited_s: float = 0.0


async def show(site: Site) -> Lock:
    """Read the lease; changes nothing."""
    found = await _read(site)
    return Lock() if found is None else _seen(found)


async def break_lock(site: Site, agree: Agree) -> Lock:
    """Take the lease from its holder and leave it free; where nobody has it, nothing is done.

    Raises:
        Busy: nobody agreed, somebody else took the lease meanwhile, or a later version wrote it; theirs is untouched.
        CloudError: a write failed; what we hold expires by itself.
    """
    found = await _read(site)
    if found is None:
        return Lock()
    seen = _seen(found)
    await agree(_question(site, seen))
    lease.refuse_newer(found)
    counts_s = holders.parse(found.data).ttl_s
    me = replace(holders.myself(site.user, "lock.break", site.clock, site.terms), ttl_s=counts_s)
    me = holders.keeping(me, holders.parse(found.data))  # whose machine has it back should we not live to free it
    ours = await _overwritten(site, found, me)
    site.journal.record("lease.broken", holder=holders.parse(found.data).words(), generation=found.stat.generation)
    wait_s = counts_s if seen.acts else 0.0
    if wait_s:
        # Our write is as young as the old holder's count can be: both run out together, so ours needs no renewal.
        site.journal.record("lease.runs_out", wait_s=wait_s, holder=holders.parse(found.data).words())
        await site.clock.sleep(wait_s)
    with suppress(Conflict):  # it ran out, and somebody has it now
        await site.store.delete(_name(site), if_generation=ours)
    return replace(seen, broken=True, acts=False, waited_s=wait_s)


async def _overwritten(site: Site, found: StoredObject, me: holders.Holder) -> int:
    """Our generation, written over the holder's; a renewal in between is the same holder, and is written over too."""
    told = holders.parse(found.data)
    for _ in range(TRIES):
        try:
            return (await site.store.write(_name(site), me.data(), if_generation=found.stat.generation)).generation
        except Conflict:
            again = await site.store.read(_name(site))
            if again is not None and holders.parse(again.data).token == me.token:
                return again.stat.generation  # our own write, whose reply was lost
            if again is None or holders.parse(again.data).token != told.token:
                now = "nobody" if again is None else holders.parse(again.data).words()
                raise Busy(f"the lease is held by {now} meanwhile; nothing broken", hint="tpuops lock.show") from None
            found = again
    raise Busy(f"{told.words()} renews the lease faster than it can be taken", hint="tpuops lock.show")


def _question(site: Site, seen: Lock) -> str:
    assert seen.holder is not None
    state = "it may still act" if seen.acts else "it cannot act any more"
    if seen.holder.is_kept:
        state = "its run goes on, and nobody ends that"
    return f"break the lease of {site.environment.name}, held by {seen.holder.words()} ({state})?"


def _seen(found: StoredObject) -> Lock:
    acts = not lease.is_free(found, holders.here())
    return Lock(holders.parse(found.data), found.stat.generation, found.age_s, acts)


async def _read(site: Site) -> StoredObject | None:
    bucket = await site.cloud.bucket(site.desired.bucket.name)
    return None if bucket is None else await site.store.read(_name(site))


def _name(site: Site) -> str:
    return f"{site.prefix}lease.json"
