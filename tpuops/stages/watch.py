"""Watch: follow one attempt until it ended or its machine is gone; a lost connection alone is neither.

Log lines are pushed; nothing here restarts or deletes. When the connection breaks, the API is asked first: a READY node
is connected to again and the log is read on from the byte where it broke. A program that lives and has stalled beyond
all patience is ended, after its stacks were taken; that is an attempt's end like any other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import re2

from tpuops.clock import Clock
from tpuops.cloud.port import CloudReader
from tpuops.diagnosis import stall
from tpuops.diagnosis.signatures import Texts
from tpuops.diagnosis.verdict import Evidence, Verdict, WorkerEvidence
from tpuops.environment import Environment
from tpuops.errors import CommandFailed, Unreachable
from tpuops.journal import Journal
from tpuops.remote.port import Agent, AgentStatus, Connector, Exit, LogChunk
from tpuops.resources import Node
from tpuops.stages.access import Lost, Route, reach
from tpuops.stages.evidence import STALLED, Found, look
from tpuops.stages.pulse import Pulse

TAIL_BYTES = 1 << 20
LINE_BYTES = 1 << 16
_DIGITS = 18
"""A longer number is no step; Python refuses to read one of thousands."""
STALL_GRACE_S = 10.0
"""For a stalled program to save its state after SIGTERM."""
_LOOK_S = (0.5, 30.0)
"""Seconds between looks at how long nothing was heard: at least, and at most (and a quarter of the shorter limit, which
may have come into force meanwhile)."""


def stall_limits(environment: Environment) -> stall.Limits | None:
    """How long the file lets nothing happen; None: for ever."""
    said = environment.train.stall
    return None if said is None else stall.Limits(said.start.total_seconds(), said.train.total_seconds())


@dataclass(slots=True)
class Progress:
    """What an attempt's log told so far. Steps are the program's own; times are monotonic seconds.

    `useful_s` adds up the time between consecutive steps that were reached for the first time in the whole run.
    """

    pattern: str
    best_step: int = -1
    first_step: int | None = None
    first_step_at: float = 0.0
    last_step: int = -1
    last_at: float = 0.0
    useful_s: float = 0.0
    pulse: Pulse = field(init=False)
    _rest: bytes = b""
    _regex: object = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._regex = re2.compile(self.pattern.encode()) if self.pattern else None
        self.pulse = Pulse(has_steps=bool(self.pattern))

    def feed(self, data: bytes, at: float) -> list[int]:
        """Take log bytes that arrived at `at`; return the steps they completed, in order."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LINE_BYTES:]
        self.pulse.hear(at)
        return [step for line in lines if (step := self._taken(line[:LINE_BYTES], at)) is not None]

    def _taken(self, line: bytes, at: float) -> int | None:
        step = self._step(line)
        self.pulse.line(line, at, step=step is not None)
        if step is not None:
            self._reached(step, at)
        return step

    def _step(self, line: bytes) -> int | None:
        match = self._regex.search(line) if self._regex is not None else None  # type: ignore[attr-defined]
        digits = match.group(1) if match else b""
        return int(digits) if digits.isdigit() and len(digits) <= _DIGITS else None

    def _reached(self, step: int, at: float) -> None:
        if self.first_step is None:
            self.first_step, self.first_step_at = step, at
        elif step > self.best_step:
            self.useful_s += at - self.last_at
        self.last_step, self.last_at = step, at
        self.best_step = max(self.best_step, step)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended: its evidence, the agent if it can still be asked, and when it was noticed.

    `verdict`: what preflight found, where that kept it from starting; `texts`: what the machine said of the failure.
    """

    evidence: Evidence
    agent: Agent | None
    noticed_at: float
    node: Node | None
    verdict: Verdict | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the training program ended by itself with exit code 0."""
        return self.evidence.workers[0].exit_code == 0


@dataclass(frozen=True, slots=True)
class Stalled:
    """Why a living program was ended, what it had said by then, and what machine and API knew of it while it lived."""

    signs: stall.Signs
    log: bytes
    found: Found


@dataclass(slots=True)
class Attempt:
    """One attempt being watched: where it runs, how far its log was read, and whether it is being ended as stalled."""

    node: Node
    agent: Agent
    run_id: str
    number: int
    offset: int = 0
    tail: bytearray = field(default_factory=bytearray)
    stalled: Stalled | None = None


@dataclass(frozen=True, slots=True)
class Eyes:
    """What watching needs: reading the cloud, connecting, time, the record, who listens to log bytes, for how long
    nothing may happen (`limits`; None: for ever), and the lease's word that we may still act (`fence`)."""

    cloud: CloudReader
    connector: Connector
    route: Route
    clock: Clock
    journal: Journal
    show: Callable[[bytes], None]
    signatures: Texts = ()
    limits: stall.Limits | None = None
    fence: Callable[[], Awaitable[None]] | None = None


async def watch(attempt: Attempt, progress: Progress, eyes: Eyes) -> AttemptEnd:
    """Follow until the attempt ended.

    Raises:
        AccessError: the machine shows another host key.
        Busy: it has stalled, and the lease under which it may be ended is another's.
    """
    while True:
        try:
            return await _follow(attempt, progress, eyes)
        except Unreachable as error:
            eyes.journal.record("ssh.lost", node=attempt.node.name, why=error.message, step=progress.last_step)
        back = await _again(attempt, eyes)
        if isinstance(back, AttemptEnd):
            return back
        await attempt.agent.close()
        attempt.agent = back
        eyes.journal.record("ssh.back", node=attempt.node.name, step=progress.last_step)


async def _follow(attempt: Attempt, progress: Progress, eyes: Eyes) -> AttemptEnd:
    progress.pulse.listen(eyes.clock.monotonic())
    minding = asyncio.create_task(_mind(attempt, progress.pulse, eyes))
    hearing = asyncio.create_task(_hear(attempt, progress, eyes, minding))
    try:
        await asyncio.wait({minding, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if not hearing.done():
            await minding
        return await hearing
    finally:
        minding.cancel()
        hearing.cancel()
        await asyncio.gather(minding, hearing, return_exceptions=True)


async def _hear(attempt: Attempt, progress: Progress, eyes: Eyes, minding: asyncio.Task[None]) -> AttemptEnd:
    async for item in attempt.agent.follow(attempt.run_id, attempt.number, attempt.offset):
        if isinstance(item, LogChunk):
            _take(item, attempt, progress, eyes)
            continue
        if attempt.stalled is not None:
            await minding  # until nothing of it is left
            return _was_stalled(attempt.stalled, attempt, progress, eyes)
        return await _ended(item, attempt, progress, eyes)
    raise Unreachable("the log stream ended without saying how the training ended")


async def _mind(attempt: Attempt, pulse: Pulse, eyes: Eyes) -> None:
    """Watch the clock while nobody speaks; end what has stalled. A broken connection is left to whoever follows.

    Raises `Busy` where the lease is lost: nobody here may end it, and to wait for its end would be to wait for ever.
    """
    if eyes.limits is None:
        return
    shortest_s, longest_s = _LOOK_S[0], min(_LOOK_S[1], eyes.limits.start_s / 4, eyes.limits.train_s / 4)
    try:
        while True:
            if attempt.stalled is None:
                left_s = stall.left_s(pulse.signs(eyes.clock.monotonic()), eyes.limits)
                await eyes.clock.sleep(min(max(left_s, shortest_s), longest_s))
                attempt.stalled = await _stall(attempt, pulse, eyes)
            elif await _put_an_end_to(attempt, eyes):
                return
            else:
                attempt.stalled = None
                pulse.listen(eyes.clock.monotonic())
    except Unreachable:
        return


async def _stall(attempt: Attempt, pulse: Pulse, eyes: Eyes) -> Stalled | None:
    """What is known of a stalled program; None where all may be well.

    The machine has the last word: a program whose output was not all read here has not been silent, we have been deaf.
    """
    assert eyes.limits is not None
    if not stall.stalled(pulse.signs(eyes.clock.monotonic()), eyes.limits) or not await _all_heard(attempt):
        return None
    found = await look(attempt.agent, attempt.node, eyes.cloud, eyes.journal)
    signs = pulse.signs(eyes.clock.monotonic())
    why = stall.stalled(signs, eyes.limits)
    if not why or not await _all_heard(attempt):
        return None
    eyes.journal.record("train.stalled", attempt=attempt.number, phase=signs.phase, why=why)
    return Stalled(signs, bytes(attempt.tail), found)


async def _all_heard(attempt: Attempt) -> bool:
    try:
        status = await attempt.agent.status()
    except CommandFailed:
        return False
    same = (status.run_id, status.attempt) == (attempt.run_id, attempt.number)
    return same and status.alive and status.log_bytes <= attempt.offset


async def _put_an_end_to(attempt: Attempt, eyes: Eyes) -> bool:
    """SIGTERM, SIGQUIT, SIGKILL; False where the process outlives even that (it waits inside the kernel)."""
    if eyes.fence is not None:
        await eyes.fence()
    try:
        await attempt.agent.stop(STALL_GRACE_S)
    except CommandFailed as error:
        eyes.journal.record("train.unended", attempt=attempt.number, why=error.message)
        return False
    return True


def _take(chunk: LogChunk, attempt: Attempt, progress: Progress, eyes: Eyes) -> None:
    attempt.offset = chunk.offset + len(chunk.data)
    attempt.tail += chunk.data
    del attempt.tail[:-TAIL_BYTES]
    eyes.show(chunk.data)
    first_before = progress.first_step
    steps = progress.feed(chunk.data, eyes.clock.monotonic())
    if steps and first_before is None:
        eyes.journal.record("train.stepping", attempt=attempt.number, step=progress.first_step)


def _was_stalled(stalled: Stalled, attempt: Attempt, progress: Progress, eyes: Eyes) -> AttemptEnd:
    """The end that we made: how the process took it says nothing, so it is judged by what was known while it lived."""
    found, node = stalled.found, stalled.found.node or attempt.node
    told = {"silence_s": stalled.signs.nothing_s, "phase": stalled.signs.phase}
    worker = WorkerEvidence(log=stalled.log, kernel_log=found.kernel_log, devices=found.devices)
    evidence = Evidence(
        (worker,),
        node.state,
        node.health,
        silence_s=stalled.signs.nothing_s,
        phase=stalled.signs.phase,
        symptoms=found.symptoms,
        vm_events=found.events,
        progress=progress.pattern,
        signatures=eyes.signatures,
    )
    texts = {**found.texts, STALLED: json.dumps(told).encode()}
    return AttemptEnd(evidence, attempt.agent, eyes.clock.monotonic(), node, texts=texts)


async def _ended(item: Exit | AgentStatus, attempt: Attempt, progress: Progress, eyes: Eyes) -> AttemptEnd:
    """The end as the machine tells it; of a failure, machine and API are asked what they know beside the log."""
    noticed_at = eyes.clock.monotonic()
    code = item.code if isinstance(item, Exit) else None
    found = Found() if code == 0 else await look(attempt.agent, attempt.node, eyes.cloud, eyes.journal)
    node = found.node or attempt.node
    worker = WorkerEvidence(
        worker=0,
        log=bytes(attempt.tail),
        exit_code=code,
        signal=item.signal if isinstance(item, Exit) else 0,
        kernel_log=found.kernel_log,
        devices=found.devices,
    )
    evidence = Evidence(
        (worker,),
        node.state,
        node.health,
        phase=progress.pulse.signs(noticed_at).phase,
        symptoms=found.symptoms,
        vm_events=found.events,
        progress=progress.pattern,
        signatures=eyes.signatures,
    )
    return AttemptEnd(evidence, attempt.agent, noticed_at, node, texts=found.texts)


async def _again(attempt: Attempt, eyes: Eyes) -> Agent | AttemptEnd:
    """Connect again, or tell by the API that the machine is gone; a node that stays silent is unreachable."""
    try:
        found = await reach(eyes.cloud, eyes.connector, attempt.node, eyes.route, eyes.clock)
    except Unreachable as error:
        eyes.journal.record("ssh.unreachable", node=attempt.node.name, why=error.message)
        return _gone(attempt, attempt.node, eyes)
    return _gone(attempt, found.node, eyes) if isinstance(found, Lost) else found


def _gone(attempt: Attempt, node: Node | None, eyes: Eyes) -> AttemptEnd:
    worker = WorkerEvidence(worker=0, log=bytes(attempt.tail), reachable=False)
    missing = node is None or node.id != attempt.node.id
    evidence = Evidence(
        workers=(worker,),
        node_state="" if node is None else node.state,
        node_health="" if node is None else node.health,
        node_missing=missing,
        signatures=eyes.signatures,
    )
    return AttemptEnd(evidence, None, eyes.clock.monotonic(), node)
