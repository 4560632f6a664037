"""unwatched: the end of an attempt that came while nobody watched, told from what its machine left in the bucket."""

from __future__ import annotations

from dataclasses import replace

from tpuops.diagnosis.verdict import Move
from tpuops.lifecycle.ends import Ending, ended_by, judged, left_s, note, ordered, over
from tpuops.lifecycle.story import Story
from tpuops.lifecycle.trace import Trace, ended, evidence_of, is_gone, kept_results
from tpuops.stages.collect import Collected
from tpuops.stages.record import RUNNING
from tpuops.stages.watch import AttemptEnd


async def unwatched(story: Story) -> Ending | None:
    """The end of a run whose attempt ended while nobody watched, and whose machine saved all and is gone.

    None where nothing is known of one, and where the run goes on from it: then that is on record as any failure is.

    Raises:
        LimitReached: it goes on from it, or from its last checkpoint, and `limits.runtime` has passed.
    """
    site, record = story.site, story.record
    if record.state != RUNNING or not story.is_own:
        return None
    node = await site.cloud.node(site.desired.node.place, site.desired.node.name)
    if not is_gone(record, node):
        return None
    found = await ended(site, record)
    ending = None if found is None else await _answered(story, found)
    if ending is None and left_s(story) <= 0:
        raise over(story)
    return ending


async def _answered(story: Story, found: Trace) -> Ending | None:
    site, record, progress = story.site, story.record, story.progress()
    story.go_on()
    site.journal.attach(site.store, story.objects("journal"))
    progress.feed(found.log, site.clock.monotonic())
    story.record = replace(story.record, best_step=max(story.record.best_step, progress.best_step))
    evidence = evidence_of(found, progress.pattern, story.signatures)
    end = AttemptEnd(evidence, None, site.clock.monotonic(), None)
    if (stopped := await ordered(story, end)) is not None:
        return stopped
    verdict, decision = judged(story, end)
    if decision.move in {Move.FINISH, Move.GIVE_UP}:
        return ended_by(verdict, decision, Collected(await kept_results(site, record.run_id), ()))
    await note(story, end, verdict, replace(decision, move=Move.RECREATE))
    return None
