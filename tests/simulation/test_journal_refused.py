"""A journal or a failure's evidence that may not be written costs nobody the run, its exit code or its lease: it is
said, and that is all."""

from __future__ import annotations

import gc
import logging

import pytest

from tests.simulation.loop import VirtualClock, live, sleep
from tests.simulation.sweep import Scene, lived, wrong
from tpuops.cloud.calls import TIMEOUT_S
from tpuops.cloud.port import ObjectStat
from tpuops.cloud.retry import repeatedly
from tpuops.errors import Transient
from tpuops.journal import Journal

REFUSED = (
    {"http": 401, "status": "UNAUTHENTICATED", "message": "Request had invalid authentication credentials."},
    {"http": 403, "message": "ada lacks storage.objects.create", "reason": "IAM_PERMISSION_DENIED"},
    {"http": 503, "message": "backendError"},
)


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: str(refusal["http"]))
def test_a_run_whose_journal_is_refused_ends_like_any_other(
    refusal: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    fault = {"on": {"method": "storage.objects.insert", "resource": "*/journal/*"}, "do": {"error": refusal}}
    scene = Scene("run", "run", faults=(fault,) * 400)
    with caplog.at_level(logging.ERROR, "asyncio"):
        swept = lived(scene)
        gc.collect()
    assert wrong(scene, lived(Scene("run", "run")), swept) == []
    assert swept.end.exit_code == 0
    assert [row.getMessage() for row in caplog.records if row.name == "asyncio"] == []
    assert "journal.unsent" in {event.kind for _, event in swept.history.events}


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: str(refusal["http"]))
def test_a_recovery_whose_evidence_is_refused_goes_on(refusal: dict[str, object]) -> None:
    death = {"on": {"step": 3}, "do": {"kill": "train.py"}}
    fault = {"on": {"method": "storage.objects.insert", "resource": "*/evidence/*"}, "do": {"error": refusal}}
    clean, scene = (Scene("run", "run", faults=(death, *more)) for more in ((), (fault,) * 400))
    swept = lived(scene)
    assert wrong(scene, lived(clean), swept) == []
    assert swept.end.exit_code == 0
    assert "harvest.incomplete" in {event.kind for _, event in swept.history.events}


class Swallowing:
    """A bucket behind a network that swallows packets: each call takes its whole time-out, and is repeated."""

    async def write(self, name: str, data: bytes, *, if_generation: int | None) -> ObjectStat:
        async def ask() -> ObjectStat:
            await sleep(TIMEOUT_S)
            raise Transient("no answer")

        return await repeatedly(ask, VirtualClock())


@pytest.mark.parametrize("events", [1, 12])
def test_a_bucket_that_swallows_everything_is_waited_for_no_longer_the_more_there_is_to_tell(events: int) -> None:
    async def waited() -> float:
        clock = VirtualClock()
        journal = Journal(clock, None)
        journal.attach(Swallowing(), "runs/r/journal/")
        for number in range(events):
            journal.record("ssh.lost", number=number)
            await sleep(5.0)
        began = clock.monotonic()
        await journal.flush()
        return clock.monotonic() - began

    assert live(waited()) < 5 * TIMEOUT_S
