"""Preflight's place in a run: beside sync and set-up, before each start.

A fault ends the attempt before it began, and is answered by the same ladder as one that came while training. Somebody
else's process on the device is left alone: the run waits for a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from tpuops.diagnosis.verdict import Evidence, WorkerEvidence
from tpuops.errors import Busy, Unreachable
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Story
from tpuops.remote.port import Agent, RunSpec
from tpuops.remote.readiness import Readiness
from tpuops.stages import preflight
from tpuops.stages import run as runs
from tpuops.stages.access import Lost, reach
from tpuops.stages.fanout import entered
from tpuops.stages.preflight import Row, Slice
from tpuops.stages.watch import AttemptEnd


async def prepared(story: Story, agent: Agent, spec: RunSpec) -> AttemptEnd | None:
    """Sync and set up while every worker is looked at; the end of an attempt that cannot start, None where it can.

    `agent` is worker 0; the others are entered for this alone.

    Raises:
        Busy: a process that is no run of ours holds the accelerator; nothing was touched.
        CommandFailed: the set-up failed.
        Unreachable: the connection broke, or the slice went meanwhile.
    """
    others = range(1, len(story.machine.workers))
    async with entered(others, lambda worker: _enter(story, worker)) as (agents, shut):
        setting_up = {
            worker: asyncio.ensure_future(
                runs.prepare(each, replace(spec, secrets={}), story.source.path, story.source.digest)
            )
            for worker, each in {0: agent, **agents}.items()
        }
        try:
            rows = await _looked(story, {0: agent, **agents}, shut, setting_up)
        finally:
            for each in setting_up.values():
                each.cancel()
            await asyncio.gather(*setting_up.values(), return_exceptions=True)
    fault = preflight.blocking(rows)
    return None if fault is None else _ended(story, agent, fault)


async def _enter(story: Story, worker: int) -> Agent | str:
    """One of the other workers, or why it could not be entered. Raises `Unreachable` where the slice went."""
    site, node = story.site, story.machine
    try:
        found = await reach(site.cloud, site.connector, node, site.route, site.clock, worker)
    except Unreachable as error:
        return " ".join((error.message, *error.evidence))
    if isinstance(found, Lost):
        raise Unreachable(f"{node.name} went while its workers were entered")
    return found


async def _looked(
    story: Story,
    agents: Mapping[int, Agent],
    shut: Mapping[int, str],
    setting_up: Mapping[int, asyncio.Future[Mapping[str, str]]],
) -> tuple[Row, ...]:
    """What all workers say, with the code and packages that they have after the set-up, where nothing stands before it.

    Nothing where worker 0 could not look: that alone keeps no run from starting.
    """
    site, node = story.site, story.machine
    asked = {each: preflight.question(node, each, site.desired.bucket.name, site.prefix) for each in agents}
    said = await preflight.ask(agents, asked)
    if isinstance(said[0], str):
        site.journal.record("preflight.unanswered", why=said[0])
        await asyncio.gather(*setting_up.values())
        return ()
    slice_ = about(site, len(node.workers))
    rows = preflight.judge({**shut, **_with(said, "", {})}, slice_)
    if preflight.blocking(rows) is None:
        versions = dict(zip(setting_up, await asyncio.gather(*setting_up.values()), strict=True))
        rows = preflight.judge({**shut, **_with(said, story.source.digest, versions)}, slice_)
    story.preflight = document(rows)
    site.journal.record("preflight.done", attempt=story.record.attempt, rows=story.preflight)
    return rows


def _with(
    said: preflight.Answers, source: str, versions: Mapping[int, Mapping[str, str]]
) -> dict[int, Readiness | str]:
    """The answers with this code and these packages in them, in place of what was there before the set-up."""
    return {
        worker: each if isinstance(each, str) else replace(each, source=source, versions=versions.get(worker, {}))
        for worker, each in said.items()
    }


def _ended(story: Story, agent: Agent, fault: Row) -> AttemptEnd:
    if fault.failure_class == preflight.IN_USE:
        raise Busy(
            f"the accelerator of {story.machine.name} is in use: worker {fault.worker}: {fault.what}",
            hint=f"{fault.fix}; nothing was touched",
        )
    found = preflight.verdict(fault)
    worker = WorkerEvidence(fault.worker, found.decisive_line.encode())
    evidence = Evidence((worker,), story.machine.state, story.machine.health)
    return AttemptEnd(evidence, agent, story.site.clock.monotonic(), story.machine, found)


def about(site: Site, workers: int) -> Slice:
    """What rows of this site are judged against."""
    anew = f"{site.typed('down')} && {site.typed('up')}"
    return Slice(site.desired.bucket.name, workers, site.typed("ssh"), anew)


def document(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """The rows as JSON values."""
    return [_plain(asdict(row)) for row in rows]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    named = {**row, "class": row["failure_class"], "state": str(row["state"])}
    return {key: named[key] for key in ("worker", "check", "state", "what", "fix", "class")}
