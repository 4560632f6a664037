"""A run that is preempted hundreds of times and advances each time is healthy: nothing leaks, nothing grows (R21).

CI plays a day of training that is taken 500 times, and two days at the rate and with the latencies of real spot TPUs.
`TPUOPS_SOAK=whole` plays the 42 preemptions in 685 hours that SkyPilot's users saw.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.properties import violations
from tests.simulation.soak import STEP_S, Soaked, Soaking, soaked
from tpuops.localcloud.core.profile import REALISTIC

pytestmark = pytest.mark.timeout(1800)

TAKEN = 500
WARM = 250
"""Attempts after which whatever is made once is made."""
ROW_KB = 3
"""The report has a row for each recovery, the record too, and the stage's own history."""
RATE_H = 16.3
"""Mean hours between two preemptions of a spot TPU: 42 in 685 hours, each of which cost 9.8 minutes."""
PEER = 0.988
"""The part of its hours that such a job trained for."""
CHECKPOINT_S = 600.0


@pytest.fixture(scope="module")
def day() -> Soaked:
    """24 hours of training, on a cloud that makes a node in 0.6 s."""
    return soaked(Soaking(TAKEN, hours=24.0))


def test_a_run_that_is_taken_five_hundred_times_ends_well_and_leaves_nothing(day: Soaked) -> None:
    document = day.history.last.document
    assert violations(day.history) == []
    assert [fault for fault in day.history.faults if fault["fired_at"] is None] == []
    assert (document["outcome"], document["remains"]) == ("done", [])
    assert document["attempts"] == len(document["recoveries"]) + 1


def test_no_attempt_is_trained_twice_and_each_lost_machine_is_replaced_once(day: Soaked) -> None:
    assert len({start.attempt for start in day.history.started}) == len(day.history.started)
    decoys = 3
    assert day.made["tpu.nodes.create"] - decoys == day.made["tpu.nodes.delete"] == TAKEN + 1
    assert (day.made["compute.instances.insert"] - decoys, day.made["compute.instances.delete"]) == (1, 1)


def test_the_process_holds_no_more_at_the_end_than_when_it_was_warm(day: Soaked) -> None:
    warm = next(weighed for weighed in day.weighed if weighed.attempt >= WARM)
    last = day.weighed[-1]
    assert last.attempt > 1.9 * WARM
    assert (last.files, last.tasks) == (warm.files, warm.tasks)
    assert last.rss_kb - warm.rss_kb < 1024
    assert last.used_kb - warm.used_kb < ROW_KB * (last.attempt - warm.attempt)


def test_at_the_rate_of_real_preemptions_more_of_the_time_is_trained_than_with_the_peer() -> None:
    """On the cloud's realistic profile: 90 s to delete the lost node, 120 s to make the next."""
    taken = 42 if os.environ.get("TPUOPS_SOAK") == "whole" else 3
    soaking = Soaking(taken, hours=taken * RATE_H, every=round(CHECKPOINT_S / STEP_S), profile=REALISTIC)
    seen = soaked(soaking)
    assert violations(seen.history) == []
    assert seen.history.last.document["attempts"] == taken + 1
    assert seen.history.last.document["goodput"] >= PEER
    assert soaking.hours * 3600.0 / seen.trained_s >= PEER
