"""A journal or a failure's evidence that may not be written costs nobody the run, its exit code or its lease: it is
said, and that is all."""

from __future__ import annotations

import gc
import logging

import pytest

from tests.simulation.sweep import Scene, lived, wrong

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
