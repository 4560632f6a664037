"""told: that the end of a run was shown to whoever asked for it, so that an end nobody saw is shown once more.

A controller may be killed after it closed the run's record and before it said how the run ended. Whoever restarts the
same command then (a scheduler does at once) would pay for the same training again. So the command says when its report
was shown, and one that finds a closed run of its own source and program, which nobody was told of and which ended no
longer ago than a killed controller is waited for (`limits.abandoned`), reports that end and trains nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

from tpuops.errors import TpuopsError
from tpuops.lifecycle.finish import Report, end_machines
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Story
from tpuops.stages.record import CLOSED

NAME = "told.json"
FOR_GOOD = "stopped"
"""How a run ends that a person ended: they were there."""


async def acknowledge(site: Site, run_id: str) -> None:
    """Remember that the end of this run was shown; where that fails, it may be shown once more."""
    with suppress(TpuopsError):
        data = json.dumps({"run_id": run_id}).encode()
        await site.store.write(f"{site.prefix}{NAME}", data, if_generation=None)


async def untold(story: Story) -> Report | None:
    """The end of the run on record, where it is this command's own and nobody was told; None where a new one is due."""
    site, record = story.site, story.record
    report = record.outcome.get("report") if record.state == CLOSED else None
    if not report or report["outcome"] == FOR_GOOD or story.records.age_s > site.terms.grace_s:
        return None
    if not story.is_own or await _was_told(site, record.run_id):
        return None
    site.journal.record("run.untold", run=record.run_id, outcome=report["outcome"], age_s=story.records.age_s)
    torn = await end_machines(site, story.crew, delete=False)
    return replace(Report(**report), kept=torn.kept)


async def _was_told(site: Site, run_id: str) -> bool:
    found = await site.store.read(f"{site.prefix}{NAME}")
    try:
        return found is not None and json.loads(found.data).get("run_id") == run_id
    except (ValueError, AttributeError):
        return False
