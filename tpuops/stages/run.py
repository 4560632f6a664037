"""Run: decide whether to join a living attempt, go on with a run or begin a new one, and start attempts.

A living run is sacred: it is joined, never started a second time, and a changed source on it is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tpuops.environment import Environment
from tpuops.errors import Busy
from tpuops.remote.port import Agent, AgentStatus, RunSpec
from tpuops.stages.record import RUNNING, RunRecord


class SourceChanged(Busy):
    """The run that lives was started from another source than the one at hand."""


class Entry(StrEnum):
    """How a command enters a run: AGAIN starts the attempt on record, RESUME the one after it."""

    JOIN = "join"
    AGAIN = "again"
    RESUME = "resume"
    BEGIN = "begin"


@dataclass(frozen=True, slots=True)
class Way:
    """The entry and why."""

    entry: Entry
    reason: str


def enter(record: RunRecord | None, status: AgentStatus, source: str, node_id: str, program: str = "") -> Way:
    """Compare the record in the bucket with what the machine, a worker of `node_id`, says.

    `source` and `program` are the digests of what this command would start; an empty `program` is not compared.

    Raises:
        Busy: a run lives there that this command may not join.
    """
    if status.alive:
        return _living(record, status, source, program)
    if record is None or record.state != RUNNING:
        return Way(Entry.BEGIN, "no run is open")
    if record.source != source:
        return Way(Entry.BEGIN, f"the source changed since run {record.run_id} stopped")
    if status.pid and (status.run_id, status.attempt) == (record.run_id, record.attempt):
        return Way(Entry.JOIN, f"attempt {record.attempt} of run {record.run_id} ended while nobody watched")
    if record.node_id == node_id:
        return Way(Entry.AGAIN, f"attempt {record.attempt} of run {record.run_id} was never started")
    return Way(Entry.RESUME, f"run {record.run_id} is open and its machine was made anew")


def _living(record: RunRecord | None, status: AgentStatus, source: str, program: str) -> Way:
    known = record is not None and record.run_id == status.run_id and record.state == RUNNING
    if not known:
        raise Busy(
            f"run {status.run_id} lives on the machine (process {status.pid}) and is not the one on record",
            hint="tpuops status",
        )
    assert record is not None
    if source != record.source:
        raise SourceChanged(
            f"run {status.run_id} lives and was started from another source",
            hint="let it end, or `tpuops stop` it first; nothing was touched",
        )
    if record.program and program and program != record.program:
        raise SourceChanged(
            f"run {status.run_id} lives, and the file's command, setup, env, secrets or outputs were changed since",
            hint="put them back, or let it end, or `tpuops stop` it first; nothing was touched",
        )
    return Way(Entry.JOIN, f"attempt {status.attempt} of run {status.run_id} lives (process {status.pid})")


def program_of(environment: Environment) -> str:
    """The digest of what the file says to run, secrets by their references."""
    # Without what is left out: a later tpuops, with further fields, must still know the run that this one began.
    told = environment.model_dump(mode="json", include={"train", "rehearsal"}, exclude_defaults=True)
    for key in (
        "source",
        "progress",
        "stall",
    ):  # the source has a digest of its own, and the others are read here alone
        told["train"].pop(key, None)
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def spec_of(environment: Environment, record: RunRecord, bucket: str, secrets: Mapping[str, str]) -> RunSpec:
    """What the machine is told to run for this attempt."""
    train = environment.train
    checkpoints = f"gs://{bucket}/{prefix(record.run_id)}checkpoints"
    return RunSpec(
        run_id=record.run_id,
        attempt=record.attempt,
        command=tuple(train.command),
        setup=tuple(tuple(argv) for argv in train.setup),
        env={**train.env, "TPUOPS_CHECKPOINTS": checkpoints},
        outputs=tuple(train.outputs),
        rehearsal=environment.rehearsal.model_dump(exclude_none=True),
        secrets=dict(secrets),
    )


def prefix(run_id: str) -> str:
    """Where a run's objects live in the home bucket."""
    return f"runs/{run_id}/"


async def prepare(agent: Agent, spec: RunSpec, source: Path, digest: str) -> Mapping[str, str]:
    """Sync the source and set up; the versions that the program will find.

    Raises `CommandFailed` with the set-up's last lines.
    """
    await agent.sync(source, digest)
    return await agent.prepare(spec)
