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
from tpuops.errors import Busy, CommandFailed
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Story
from tpuops.remote.port import Agent, RunSpec
from tpuops.remote.readiness import Question, Readiness
from tpuops.stages import preflight
from tpuops.stages import run as runs
from tpuops.stages.preflight import Row, Slice
from tpuops.stages.watch import AttemptEnd


async def prepared(story: Story, agent: Agent, spec: RunSpec) -> AttemptEnd | None:
    """Sync and set up while the machine is looked at; the end of an attempt that cannot start, None where it can.

    Raises:
        Busy: a process that is no run of ours holds the accelerator; nothing was touched.
        CommandFailed: the set-up failed.
        Unreachable: the connection broke.
    """
    site, node = story.site, story.machine
    asked = preflight.question(node, 0, site.desired.bucket.name, site.prefix)
    setting_up = asyncio.ensure_future(
        runs.prepare(agent, replace(spec, secrets={}), story.source.path, story.source.digest)
    )
    try:
        answer = await _answer(site, agent, asked)
        if answer is None:
            await setting_up
            return None
        if preflight.blocking(preflight.judge({0: answer}, about(site, 1))) is None:
            versions = await setting_up
            answer = replace(answer, source=story.source.digest, versions=versions)
    finally:
        setting_up.cancel()
        await asyncio.gather(setting_up, return_exceptions=True)
    rows = preflight.judge({0: answer}, about(site, 1))
    story.preflight = document(rows)
    site.journal.record("preflight.done", attempt=story.record.attempt, rows=story.preflight)
    fault = preflight.blocking(rows)
    return None if fault is None else _ended(story, agent, fault)


async def _answer(site: Site, agent: Agent, asked: Question) -> Readiness | None:
    """What the machine says; None, and told, where its agent could not look: that alone keeps no run from starting."""
    try:
        return await agent.preflight(asked)
    except CommandFailed as error:
        site.journal.record("preflight.unanswered", why=" ".join((error.message, *error.evidence)))
        return None


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
