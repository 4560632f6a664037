"""detach: leave a living run to its machine, which keeps the lease from then on, saves what the run made and ends
itself as the file says. Nobody recovers it meanwhile; whoever comes later joins it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from tpuops.errors import TpuopsError
from tpuops.lifecycle.finish import DONE, STILL_BILLING, Report, end_machines
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Story, summary
from tpuops.stages.watch import Attempt, stall_limits
from tpuops.switch import Keeper

OUTCOME = "detached"
TAKEN_TTLS = 2.0
"""For how many times the lease's `ttl_s` its machine may take to renew it first; it looks more often than once."""


async def detached(story: Story, attempt: Attempt, *, tear_down: bool) -> Report:
    """Leave the lease to the attempt's machine and see that it takes it; machines that `run` would keep stay.

    Raises `Busy` where the lease was lost.
    """
    site, machine = story.site, story.machine.name
    await attempt.agent.close()
    await story.note()
    keeper = _keeper(story, await _now(site), tear_down=tear_down)
    site.journal.record("run.leaving", run=keeper.run_id, machine=machine)
    taken = await _taken(site, await story.crew.leave(keeper))
    torn = await end_machines(site, story.crew, delete=False, why="the run goes on there")
    until = datetime.fromtimestamp(keeper.until, UTC).isoformat(timespec="seconds")
    back = site.typed("run" if tear_down else "train")
    told = ("run_id", "machine", "stall_s", "success", "failure")
    left = {**{key: getattr(keeper, key) for key in told}, "until": until, "back": back}
    report = Report(DONE, OUTCOME, run=summary(story), kept=torn.kept, cost_usd=site.meter.usd())
    if taken:
        return replace(report, run={**report.run, "left": left})
    cause = f"{machine} did not take the lease over: nobody ends the machines, or they end while the run is healthy"
    kept, remains = ([each for each in torn.kept if (each.kind == "bucket") is bucket] for bucket in (True, False))
    return replace(
        report,
        exit_code=STILL_BILLING,
        outcome="failed",
        cause=cause,
        advice=f"{back} supervises it",
        kept=tuple(kept),
        remains=tuple(remains),
    )


async def _now(site: Site) -> datetime:
    """The time by the clock that the machine goes by, the server's."""
    held = await site.store.read(f"{site.prefix}lease.json")
    return site.clock.now() if held is None else held.server_now


def _keeper(story: Story, now: datetime, *, tear_down: bool) -> Keeper:
    environment, words = story.site.environment, story.site.environment.teardown
    limits = stall_limits(environment)
    return Keeper(
        run_id=story.record.run_id,
        machine=story.machine.name,
        user=story.site.user,
        since=story.site.clock.now().isoformat(timespec="seconds"),
        until=now.timestamp() + environment.limits.runtime.total_seconds() - story.ran_s,
        stall_s=None if limits is None else max(limits.start_s, limits.train_s),  # a machine knows of no phases
        success=words.success if tear_down else "keep",
        failure=words.failure if tear_down else "keep",
    )


async def _taken(site: Site, generation: int) -> bool:
    """Whether the machine renews the lease that stands in this generation, or has finished with it."""
    end = site.clock.monotonic() + TAKEN_TTLS * site.terms.ttl_s
    while site.clock.monotonic() < end:
        await site.clock.sleep(site.terms.renew_s / 2)
        with suppress(TpuopsError):
            found = await site.store.read(f"{site.prefix}lease.json")
            if found is None or found.stat.generation != generation:
                return True
    return False
