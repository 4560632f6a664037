"""The clock of a run that says nothing: hours of it in virtual time, against a machine that is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from tests.simulation.loop import VirtualClock, live
from tpuops.diagnosis import diagnose
from tpuops.diagnosis.stall import Limits
from tpuops.errors import Busy, CommandFailed
from tpuops.journal import Journal
from tpuops.remote.port import AgentStatus, Exit, LogChunk
from tpuops.stages.watch import Attempt, AttemptEnd, Eyes, Progress, watch

USUAL = Limits(start_s=3600, train_s=1800)
STEPS = [(60.0 * n, f"step={n} loss=1\n".encode()) for n in range(1, 5)]
TOLERANCE_S = 35.0


class Program:
    """Says its lines at their times, then nothing; ends with `ends_at`, or when it is stopped."""

    def __init__(self, said: list[tuple[float, bytes]], ends_at: float | None = None, unheard: int = 0) -> None:
        self.said, self.ends_at, self.unheard = said, ends_at, unheard
        self.stopped_at: list[float] = []
        self.outlives = 0
        self.dumped_at: float | None = None
        self._sent = 0
        self._over = asyncio.Event()

    async def follow(self, run_id: str, attempt: int, offset: int) -> AsyncIterator[LogChunk | Exit | AgentStatus]:
        loop = asyncio.get_running_loop()
        for at, data in self.said:
            await asyncio.sleep(at - loop.time())
            yield LogChunk(self._sent, data)
            self._sent += len(data)
        left_s = None if self.ends_at is None else self.ends_at - loop.time()
        try:
            await asyncio.wait_for(self._over.wait(), left_s)
        except TimeoutError:
            yield Exit(0)
            return
        yield Exit(143, 15)

    async def status(self) -> AgentStatus:
        return AgentStatus("b", "r", 1, 7, alive=not self._over.is_set(), log_bytes=self._sent + self.unheard)

    async def evidence(self) -> Mapping[str, bytes]:
        self.dumped_at = asyncio.get_running_loop().time()
        return {"stacks.txt": b"process 7\n"}

    async def stop(self, grace_s: float) -> AgentStatus:
        self.stopped_at.append(asyncio.get_running_loop().time())
        if len(self.stopped_at) <= self.outlives:
            raise CommandFailed("could not end process 7", exit_status=1)
        self._over.set()
        return await self.status()


class Cloud:
    async def node(self, place: object, name: str) -> None:
        return None


def watched(program: Program, limits: Limits | None = USUAL, fence: Any = None) -> tuple[AttemptEnd, list[str]]:
    journal = Mock(spec=Journal)
    agent: Any = program
    cloud: Any = Cloud()
    node: Any = Mock(id="1", state="READY", health="HEALTHY")

    async def life() -> AttemptEnd:
        eyes = Eyes(cloud, Mock(), Mock(), VirtualClock(), journal, lambda _: None, limits=limits, fence=fence)
        return await watch(Attempt(node, agent, "r", 1), Progress(r"step=(\d+)"), eyes)

    end = live(life())
    return end, [call.args[0] for call in journal.record.call_args_list]


@pytest.mark.parametrize(
    ("said", "phase", "at"),
    [
        ([], "start", 3600.0),
        ([(100.0, b"import\n"), (2000.0, b"compiling\n")], "compile", 5600.0),
        (STEPS, "train", 240.0 + 1800.0),
        ([*STEPS, (250.0, b"Saving checkpoint\n")], "checkpoint", 250.0 + 3600.0),
    ],
)
def test_silence_is_ended_once_its_phase_allows_no_more_of_it(said: Any, phase: str, at: float) -> None:
    program = Program(said)
    end, told = watched(program)
    assert len(program.stopped_at) == 1
    assert at <= program.stopped_at[0] <= at + TOLERANCE_S
    assert program.dumped_at is not None and program.dumped_at <= program.stopped_at[0]
    assert "train.stalled" in told
    assert end.evidence.phase == phase and end.evidence.silence_s is not None
    assert not end.finished
    assert diagnose(end.evidence).failure_class == "hang"
    assert end.texts["stacks.txt"] == b"process 7\n"


@pytest.mark.parametrize(
    "program",
    [
        lambda: Program([], ends_at=3590.0),
        lambda: Program([(1790.0 * n, b"step=%d\n" % n) for n in range(1, 9)], ends_at=20 * 1790.0),
        lambda: Program([*STEPS, (250.0, b"Evaluating\n")], ends_at=250.0 + 3590.0),
        lambda: Program(STEPS, ends_at=50_000.0, unheard=1),
    ],
    ids=["slow start", "slow steps", "long evaluation", "output that was not read here"],
)
def test_what_may_be_well_is_left_alone(program: Any) -> None:
    played = program()
    end, told = watched(played)
    assert (played.stopped_at, end.finished) == ([], True)
    assert "train.stalled" not in told


def test_without_limits_silence_may_last_for_ever() -> None:
    played = Program(STEPS, ends_at=10_000_000.0)
    end, _ = watched(played, limits=None)
    assert (played.stopped_at, end.finished) == ([], True)


def test_who_lost_the_lease_ends_nothing_and_waits_no_longer() -> None:
    async def lost() -> None:
        raise Busy("the lease is another's")

    played = Program(STEPS)
    with pytest.raises(Busy, match="another's"):
        watched(played, fence=lost)
    assert played.stopped_at == []


def test_a_process_that_outlives_sigkill_is_tried_again_after_another_wait() -> None:
    program = Program(STEPS)
    program.outlives = 1
    end, told = watched(program)
    first, second = program.stopped_at
    assert second - first >= 1800.0
    assert "train.unended" in told
    assert diagnose(end.evidence).failure_class == "hang"
