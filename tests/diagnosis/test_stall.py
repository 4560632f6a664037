"""When a living program counts as stalled: a table, and how it looks from log lines."""

from __future__ import annotations

import pytest

from tpuops.diagnosis.stall import CHECKPOINT, COMPILE, RESTORE, START, TRAIN, Limits, Signs, left_s, stalled
from tpuops.stages.watch import Progress

USUAL = Limits(start_s=3600, train_s=1800)
PATTERN = r"step=(\d+)"


@pytest.mark.parametrize(
    ("signs", "fine"),
    [
        (Signs(START, 3599, 3599), True),
        (Signs(START, 3600, 3600), False),
        (Signs(COMPILE, 1800, 1800), True),  # xla #5058: 25 to 30 minutes can be normal
        (Signs(COMPILE, 3600, 3600), False),
        (Signs(RESTORE, 3599, 9000), True),
        (Signs(COMPILE, 60, 90_000), True),  # it talks, and its pattern may fit nothing it prints
        (Signs(TRAIN, 1799, 1799, 1.0), True),
        (Signs(TRAIN, 1800, 1800, 1.0), False),
        (Signs(TRAIN, 1800, 1800, 91.0), True),  # slow steps: 20 of them
        (Signs(TRAIN, 1820, 1820, 91.0), False),
        (Signs(TRAIN, 10, 12 * 1800 - 1), True),  # it prints other things
        (Signs(TRAIN, 10, 12 * 1800), False),
        (Signs(CHECKPOINT, 3599, 3599, 1.0), True),
        (Signs(CHECKPOINT, 10, 90_000, 1.0), True),
        (Signs(CHECKPOINT, 3600, 3600, 1.0), False),
        (Signs(CHECKPOINT, 3600, 3600, 200.0), True),
    ],
)
def test_a_program_is_fine_until_all_patience_is_spent(signs: Signs, fine: bool) -> None:
    assert (stalled(signs, USUAL) == "") is fine
    assert (left_s(signs, USUAL) > 0) is fine


def test_the_reason_says_how_long_and_what_is_allowed() -> None:
    assert stalled(Signs(TRAIN, 1801.7, 1801.7), USUAL) == "no output for 1801 s, 1800 s are allowed"
    assert "no step for 21600 s" in stalled(Signs(TRAIN, 5, 21600), USUAL)


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        ([], START),
        (["import jax"], COMPILE),
        (["Restoring from gs://b/c/step_40"], RESTORE),
        (["loading the newest checkpoint", "compiled"], RESTORE),
        (["step=1 loss=2"], TRAIN),
        (["Restoring from x", "step=1 loss=2"], TRAIN),
        (["step=1 loss=2", "W1120 some warning"], TRAIN),
        (["step=1 loss=2", "Saving checkpoint at step 1", "W1120 some warning"], CHECKPOINT),
        (["step=1 loss=2", "Evaluating on 10000 rows"], CHECKPOINT),
        (["step=1 loss=2, checkpoint saved"], CHECKPOINT),
        (["step=1 loss=2", "Saving checkpoint", "step=2 loss=1"], TRAIN),
        (["step=1 eval_loss=2 saver=x"], TRAIN),
    ],
)
def test_the_phase_is_told_by_the_lines_since_the_last_step(lines: list[str], phase: str) -> None:
    progress = Progress(PATTERN)
    progress.pulse.listen(0.0)
    for line in lines:
        progress.feed(line.encode() + b"\n", 1.0)
    assert progress.pulse.signs(2.0).phase == phase


def test_the_slowest_step_is_learned_but_not_from_a_broken_connection() -> None:
    progress = Progress(PATTERN)
    progress.pulse.listen(0.0)
    for step, at in ((1, 100.0), (2, 103.0), (3, 110.0), (4, 111.0)):
        progress.feed(f"step={step}\n".encode(), at)
    assert progress.pulse.signs(115.0) == Signs(TRAIN, 4.0, 4.0, 7.0)
    progress.pulse.listen(5000.0)
    assert progress.pulse.signs(5001.0) == Signs(TRAIN, 1.0, 1.0, 7.0)
    progress.feed(b"step=5\n", 5002.0)
    assert progress.pulse.signs(5002.0).slowest_s == 7.0


def test_where_steps_cannot_be_told_any_output_is_progress() -> None:
    progress = Progress("")
    progress.pulse.listen(0.0)
    progress.feed(b"epoch 1\n", 10.0)
    progress.feed(b"epoch 2\n", 200.0)
    assert progress.pulse.signs(250.0) == Signs(TRAIN, 50.0, 50.0, 190.0)
