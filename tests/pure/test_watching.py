"""Progress from log bytes, entering a run, verifying what was saved, and the terminal's safety."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuops.cloud.port import ObjectStat
from tpuops.errors import Busy
from tpuops.remote.port import AgentStatus, Saved
from tpuops.report.log import clean
from tpuops.stages.collect import verified
from tpuops.stages.record import ENDED, RUNNING, RunRecord, parse
from tpuops.stages.run import Entry, enter
from tpuops.stages.watch import Progress

PATTERN = r"step=(\d+)"
LOG = b"start\nstep=0 loss=1\nnoise \xff\xfe\nstep=1 loss=0.5\nstep=2\n"


@given(cuts=st.lists(st.integers(0, len(LOG)), max_size=8))
def test_steps_are_the_same_however_the_log_is_cut(cuts: list[int]) -> None:
    progress, seen = Progress(PATTERN), []
    edges = [0, *sorted(cuts), len(LOG)]
    for start, end in itertools.pairwise(edges):
        seen += progress.feed(LOG[start:end], at=1.0)
    assert seen == [0, 1, 2]
    assert (progress.first_step, progress.best_step) == (0, 2)


def test_only_steps_reached_for_the_first_time_are_useful() -> None:
    progress = Progress(PATTERN, best_step=10)
    for step, at in ((9, 0.0), (10, 1.0), (11, 2.0), (12, 4.0)):
        progress.feed(f"step={step}\n".encode(), at)
    assert progress.useful_s == pytest.approx(3.0)


def test_a_step_number_that_is_no_number_is_no_progress() -> None:
    assert Progress(r"step=(\S+)").feed(b"step=nan\n", 0.0) == []


RECORD = RunRecord("r1", RUNNING, "digest", "2026-11-20T00:00:00+00:00", attempt=2, node_id="1")


@pytest.mark.parametrize(
    ("record", "status", "entry"),
    [
        (None, AgentStatus("b"), Entry.BEGIN),
        (RECORD, AgentStatus("b", "r1", 2, 7, alive=True), Entry.JOIN),
        (RECORD, AgentStatus("b", "r1", 2, 7, alive=False), Entry.JOIN),
        (RECORD, AgentStatus("b", "r1", 2, 0, alive=False), Entry.AGAIN),
        (RECORD, AgentStatus("b"), Entry.AGAIN),
        (RECORD, AgentStatus("b", "r1", 1, 7, alive=False), Entry.AGAIN),
        (replace(RECORD, node_id="made anew"), AgentStatus("b"), Entry.RESUME),
        (RunRecord("r1", ENDED, "digest", ""), AgentStatus("b", "r1", 2), Entry.BEGIN),
        (RunRecord("r1", RUNNING, "other", ""), AgentStatus("b"), Entry.BEGIN),
    ],
)
def test_a_run_is_joined_resumed_or_begun(record: RunRecord | None, status: AgentStatus, entry: Entry) -> None:
    assert enter(record, status, "digest", "1").entry is entry


@pytest.mark.parametrize("record", [None, RunRecord("r0", RUNNING, "digest", ""), RunRecord("r1", RUNNING, "old", "")])
def test_a_living_run_that_is_not_ours_to_join_is_refused(record: RunRecord | None) -> None:
    with pytest.raises(Busy):
        enter(record, AgentStatus("b", "r1", 2, 7, alive=True), "digest", "1")


def test_a_record_survives_its_own_bytes_and_rubbish_is_no_record() -> None:
    assert parse(RECORD.data()) == RECORD
    for rubbish in (b"", b"[]", b"null", b"{}", b"\xff", b'{"run_id": 1}'):
        assert parse(rubbish) is None


@pytest.mark.parametrize(("size", "md5", "missing"), [(3, "m", ()), (4, "m", ("a",)), (3, "x", ("a",))])
def test_a_file_counts_as_saved_only_with_its_size_and_md5(size: int, md5: str, missing: tuple[str, ...]) -> None:
    listed = (ObjectStat("a", 1, size, md5, datetime.now(UTC)),)
    assert verified((Saved("a", 3, "m"),), listed).missing == missing


@given(st.binary())
def test_no_log_can_drive_the_terminal(data: bytes) -> None:
    assert not any(ord(character) < 32 and character not in "\n\t" for character in clean(data))


def test_colours_go_and_words_stay() -> None:
    assert clean(b"\x1b[31mred\x1b[0m \x1b]0;title\x07ok\r50%\r100%\n") == "red ok\n50%\n100%\n"


def test_a_number_of_any_length_ends_no_watch() -> None:
    assert Progress(PATTERN).feed(b"step=" + b"1" * 5000 + b"\n", 0.0) == []
