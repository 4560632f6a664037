"""The daily tasks that change something, and the plan of it: plan, up, train, run, down, rehearse."""

from __future__ import annotations

from typing import Any

from tpuops.tasks.asking import YES, agreeing
from tpuops.tasks.task import Answer, Invocation, task

DETACH = "once the training is seen alive, leave it to its machine: nobody recovers it until you come back"
WAIT = "seconds to wait for whoever holds the environment (default: refuse, exit 7)"


@task("env", "cloud", "json", "verbose")
async def plan(asked: Invocation) -> Answer:
    """Show what `up` would change; changes nothing."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.up import planned
    from tpuops.report import following, standing
    from tpuops.tasks.opening import opened

    async with opened(asked, "plan") as (site, _):
        found, _ = await planned(site)
        document = documents.plan(found, site)
    return Answer(document, standing.plan(document), following.after_plan(document, asked.typed))


@task("env", "cloud", "json", "verbose", help={"dry_run": "show what would change, change nothing", "wait": WAIT})
async def up(asked: Invocation, dry_run: bool = False, wait: int = 0) -> Answer:
    """Provision TPU, VM and bucket; a second time it only reads."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.up import planned
    from tpuops.lifecycle.up import up as provision
    from tpuops.report import away, following, standing
    from tpuops.tasks.leaving import leaving
    from tpuops.tasks.opening import opened

    async with opened(asked, "up", wait_s=wait) as (site, _):
        if dry_run:
            document = documents.plan((await planned(site))[0], site)
            return Answer(document, standing.plan(document), following.after_plan(document, asked.typed))
        with leaving(asked, away.provisioning, lambda: away.up(asked.typed)):
            document = documents.upped(await provision(site), site)
    return Answer(document, standing.standing(document), following.after_up(asked.typed))


@task("env", "cloud", "json", "verbose", help={"yes": YES, "wait": WAIT, "detach": DETACH})
async def train(asked: Invocation, yes: bool = False, wait: int = 0, detach: bool = False) -> Answer:
    """Start (or find) the run on what stands, and supervise it; tears nothing down."""
    from tpuops.lifecycle import run as story
    from tpuops.lifecycle.anew import stopping_other_source
    from tpuops.tasks.opening import opened

    async with opened(asked, "train", wait_s=wait) as (site, source):
        agree = agreeing(asked, yes=yes)
        return _ended(
            asked, site, await stopping_other_source(site, agree, lambda: story.train(site, source(), detach=detach))
        )


@task("env", "cloud", "json", "verbose", help={"yes": YES, "wait": WAIT, "detach": DETACH})
async def run(asked: Invocation, yes: bool = False, wait: int = 0, detach: bool = False) -> Answer:
    """Up, train and down in one, unattended: what a scheduler calls."""
    from tpuops.lifecycle import run as story
    from tpuops.lifecycle.anew import stopping_other_source
    from tpuops.tasks.opening import opened

    async with opened(asked, "run", wait_s=wait) as (site, source):
        agree = agreeing(asked, yes=yes)
        return _ended(
            asked, site, await stopping_other_source(site, agree, lambda: story.run(site, source(), detach=detach))
        )


@task(
    "env",
    "cloud",
    "json",
    "verbose",
    help={
        "yes": YES,
        "discard": "remove the machines with what an open run left on them, saving nothing",
        "wait": WAIT,
    },
)
async def down(asked: Invocation, yes: bool = False, discard: bool = False, wait: int = 0) -> Answer:
    """Remove TPU and VM, and say what stays; an open run is stopped and saved first."""
    from tpuops.errors import StillBilling
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.down import down as remove
    from tpuops.report import away, following, standing
    from tpuops.tasks.leaving import leaving
    from tpuops.tasks.opening import opened

    agree = agreeing(asked, yes=yes)
    async with opened(asked, "down", wait_s=wait) as (site, _):
        if discard:
            await agree(f"remove TPU and VM of {site.environment.name}, with whatever is not saved yet?")
        with leaving(asked, away.removing, lambda: away.down(asked.typed)):
            torn = await remove(site, agree, force=discard)
    document = documents.torn(torn)
    left = [f"{thing.kind} {thing.name}: {thing.why}" for thing in torn.remains]
    error = StillBilling("something may still stand", evidence=left, hint=torn.remains[0].command) if left else None
    return Answer(document, standing.torn(document), following.after_down(document, asked.typed), error=error)


@task("env", "json", "verbose", env_default="v3-8", help={"faults": "a fault script instead of the default one"})
async def rehearse(asked: Invocation, faults: str = "") -> Answer:
    """Run an environment whole on an embedded cloud of its own, failures included."""
    from pathlib import Path

    from tpuops.rehearse import rehearse as story
    from tpuops.report import following
    from tpuops.report.run import ending
    from tpuops.tasks.opening import rehearsal

    document = await story(rehearsal(asked, Path(faults) if faults else None))
    steps = following.after_rehearsal(document, asked.typed)
    return Answer(document, ending(document), steps, exit_code=document["exit_code"])


def _ended(asked: Invocation, site: Any, report: Any) -> Answer:
    from tpuops.lifecycle.told import acknowledge
    from tpuops.report import following
    from tpuops.report.run import ending

    document = report.document
    steps = following.after_run(document, asked.typed)
    is_end = document.get("run_id") and "left" not in document
    shown = (lambda: acknowledge(site, document["run_id"])) if is_end else None
    return Answer(document, ending(document), steps, exit_code=document["exit_code"], shown=shown)
