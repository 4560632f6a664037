"""The daily tasks: plan, up, train, run, status, down, rehearse."""

from __future__ import annotations

from typing import Any

from tpuops.tasks.task import Answer, Invocation, task


@task("env", "cloud", "json", "verbose")
async def plan(asked: Invocation) -> Answer:
    """Show what `up` would change; changes nothing."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.up import planned
    from tpuops.report import standing
    from tpuops.tasks.opening import opened

    async with opened(asked, "plan") as (site, _):
        found, _ = await planned(site)
        document = documents.plan(found, site)
    return Answer(document, standing.plan(document))


@task("env", "cloud", "json", "verbose", help={"dry_run": "show what would change, change nothing"})
async def up(asked: Invocation, dry_run: bool = False) -> Answer:
    """Provision TPU, VM and bucket; a second time it only reads."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.up import planned
    from tpuops.lifecycle.up import up as provision
    from tpuops.report import standing
    from tpuops.tasks.opening import opened

    async with opened(asked, "up") as (site, _):
        if dry_run:
            document = documents.plan((await planned(site))[0], site)
            return Answer(document, standing.plan(document))
        document = documents.upped(await provision(site), site)
    return Answer(document, standing.standing(document) + f"\nnext: tpuops train --env {asked.env}")


@task("env", "cloud", "json", "verbose")
async def train(asked: Invocation) -> Answer:
    """Start (or find) the run on what stands, and supervise it; tears nothing down."""
    from tpuops.lifecycle import run as story
    from tpuops.tasks.opening import opened

    async with opened(asked, "train") as (site, source):
        return _ended(await story.train(site, source()))


@task("env", "cloud", "json", "verbose")
async def run(asked: Invocation) -> Answer:
    """Up, train and down in one, unattended: what a scheduler calls."""
    from tpuops.lifecycle import run as story
    from tpuops.tasks.opening import opened

    async with opened(asked, "run") as (site, source):
        return _ended(await story.run(site, source()))


@task("env", "cloud", "json", "verbose")
async def status(asked: Invocation) -> Answer:
    """Show what stands, who holds it, and the run on record."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.down import status as look
    from tpuops.report import standing
    from tpuops.tasks.opening import opened

    async with opened(asked, "status") as (site, _):
        document = documents.standing(await look(site), site)
    return Answer(document, standing.standing(document))


@task("env", "cloud", "json", "verbose", help={"yes": "also end a run that is open"})
async def down(asked: Invocation, yes: bool = False) -> Answer:
    """Remove TPU and VM, and say what stays; a second time there is nothing to do."""
    from tpuops.errors import StillBilling
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.down import down as remove
    from tpuops.report import standing
    from tpuops.tasks.opening import opened

    async with opened(asked, "down") as (site, _):
        torn = await remove(site, force=yes)
    document = documents.torn(torn)
    left = [f"{thing.kind} {thing.name}: {thing.why}" for thing in torn.remains]
    error = StillBilling("something still stands", evidence=left, hint=torn.remains[0].command) if left else None
    return Answer(document, standing.torn(document), error=error)


@task("env", "json", "verbose", env_default="v3-8", help={"faults": "a fault script instead of the default one"})
async def rehearse(asked: Invocation, faults: str = "") -> Answer:
    """Run an environment whole on an embedded cloud of its own, failures included."""
    from pathlib import Path

    from tpuops.rehearse import rehearse as story
    from tpuops.tasks.opening import rehearsal

    document = await story(rehearsal(asked, Path(faults) if faults else None))
    return _answer(document)


def _ended(report: Any) -> Answer:
    return _answer(report.document)


def _answer(document: dict[str, Any]) -> Answer:
    from tpuops.report.run import ending

    return Answer(document, ending(document), exit_code=document["exit_code"])
