"""One environment with everything a command acts with, and the lease around whatever changes something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuops.clock import Clock
from tpuops.cloud.port import Cloud, ObjectStore, unasked
from tpuops.environment import Environment
from tpuops.facts import names
from tpuops.journal import Journal
from tpuops.plan import Plan
from tpuops.remote.port import Connector
from tpuops.resources import Desired
from tpuops.stages import holders, lease
from tpuops.stages.access import Route
from tpuops.stages.apply import Crew, make_bucket
from tpuops.stages.secrets import Secrets
from tpuops.stages.spend import Meter
from tpuops.switch import Terms, terms


@dataclass(frozen=True, slots=True)
class Site:
    """An environment, what it desires, and the ports. `show` gets the training log's bytes as they come.

    `user` is the person who gave the command, `folder` the environment's state folder on this machine, `flags` how the
    environment was named on the command line, `wait_s` for how long a living holder of the lease is waited for.
    """

    environment: Environment
    desired: Desired
    cloud: Cloud
    store: ObjectStore
    connector: Connector
    route: Route
    clock: Clock
    journal: Journal
    meter: Meter
    user: str
    secrets: Secrets
    show: Callable[[bytes], None]
    folder: Path = Path()
    flags: str = ""
    wait_s: float = 0.0

    def typed(self, verb: str, *more: str) -> str:
        """A command on this very environment, as it is typed."""
        return " ".join(("tpuops", verb, self.flags or f"--env {self.environment.name}", *more))

    @property
    def terms(self) -> Terms:
        """For how long this environment's lease counts."""
        return terms(self.environment.limits.abandoned)

    @property
    def prefix(self) -> str:
        """Where this environment's lease and record live in the home bucket."""
        return f"tpuops/{names.environment_slug(self.environment.name)}/"


def unfenced(site: Site) -> Crew:
    """A crew for where there is no lease to hold: its bucket is still to be made, or is gone."""
    return Crew(site.cloud, unasked, site.clock, site.journal)


@asynccontextmanager
async def holding(site: Site, doing: str, plan: Plan) -> AsyncIterator[Crew]:
    """Act under the lease: the bucket is made if the plan says so, the lease taken, and released at the end.

    A machine that kept it for its run until then gets it back, also where we are killed, unless the crew is told to
    `forget` it.

    Raises:
        Busy: somebody else holds it, also after `wait_s`.
    """
    await make_bucket(plan, site.desired, unfenced(site))
    me = holders.myself(site.user, doing, site.clock, site.terms)
    held = await lease.take(site.store, f"{site.prefix}lease.json", me, site.clock, site.journal, site.wait_s)
    site.journal.record("lease.taken", holder=me.words())
    try:
        cloud = site.cloud.guarded(held.check)
        yield Crew(cloud, held.check, site.clock, site.journal, held.tell, held.leave, held.forget)
    finally:
        await _undisturbed(_let_go(site, held))


async def _let_go(site: Site, held: lease.Lease) -> None:
    await site.journal.flush()
    await held.release()


async def _undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Await it to its end. A signal that comes meanwhile takes nothing from what was found, and decides the exit code
    all the same (tasks/ending.py)."""
    ending = asyncio.ensure_future(work)
    while not ending.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(ending)
    ending.result()
