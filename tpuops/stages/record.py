"""The run record: one object in the home bucket that says which run this environment is about.

It lets another controller, on another machine, go on where one was killed: which run, which attempt, what failed so
far, how it ended. Only the holder of the lease writes it, over the generation it read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from tpuops.cloud.port import ObjectStat, ObjectStore
from tpuops.diagnosis.verdict import Action, Past
from tpuops.errors import Busy, Conflict, TpuopsError

RUNNING, ENDED, CLOSED = "running", "ended", "closed"
FORMAT = 1
"""Of the record's form. A later one was written by a later version, which this one must not write over."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run over all its attempts.

    `state` is running, ended (the outcome is known, saving or teardown may be unfinished) or closed. `node_id` is the
    node of the current attempt, `best_step` the highest training step seen, `recoveries` what the report prints, `by`
    the person who began it, `program` the digest of what the file says to run. `commit` and `changed` are what git said
    of the source: its commit, and how many paths differed from that; empty where it knows nothing. `ran_s` is how long
    the run had lasted when this was written: no wall clock counts it (`started` is for people); each writer adds its
    own seconds to what it read and to that record's age.
    """

    run_id: str
    state: str
    source: str
    started: str
    attempt: int = 1
    node_id: str = ""
    best_step: int = -1
    past: tuple[Past, ...] = ()
    recoveries: tuple[Mapping[str, Any], ...] = ()
    outcome: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    format: int = FORMAT
    program: str = ""
    commit: str = ""
    changed: int = 0
    ran_s: float = 0.0

    def data(self) -> bytes:
        """The object's bytes."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({**told, "past": [asdict(row) for row in self.past]}, sort_keys=True).encode()


class Records:
    """Reads and writes the record of one environment."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store, self._name = store, name
        self._generation = 0
        self._unreadable = self._written = b""
        self._writing: asyncio.Future[ObjectStat] | None = None
        self.age_s = 0.0
        """How long before the last read it had been written, by the server's clock."""

    async def read(self) -> RunRecord | None:
        """The record, None where no run was ever started or the object is unreadable.

        Raises:
            Busy: a later version wrote it.
        """
        found = await self._store.read(self._name)
        self._generation, self._unreadable = 0 if found is None else found.stat.generation, b""
        if found is None:
            return None
        self.age_s = found.age_s
        record = parse(found.data)
        if record is None:
            self._unreadable = found.data
        return record

    async def write(self, record: RunRecord) -> None:
        """Write over the generation last read. Bytes that nobody could read are kept beside it first.

        A write whose caller was interrupted goes on by itself, and the next one waits for it: it may have been made.

        Raises:
            Busy: somebody else wrote meanwhile; only the lease's holder writes, so this process lost it.
        """
        if self._unreadable:
            aside = f"{self._name}.unreadable-{self._generation}"
            await self._store.write(aside, self._unreadable, if_generation=None)
            self._unreadable = b""
        if self._writing is not None:
            self._generation = await self._made(self._writing)
        self._written = record.data()
        self._writing = asyncio.ensure_future(
            self._store.write(self._name, self._written, if_generation=self._generation)
        )
        try:
            stat = await asyncio.shield(self._writing)
        except Conflict as error:
            raise Busy(
                f"run {record.run_id} was taken over by another controller; this one stops acting",
                hint="tpuops status",
            ) from error
        self._generation, self._writing = stat.generation, None

    async def _made(self, writing: asyncio.Future[ObjectStat]) -> int:
        """The generation after an earlier write of ours; one that failed may have been made all the same."""
        try:
            return (await asyncio.shield(writing)).generation
        except TpuopsError:
            found = await self._store.read(self._name)
            if found is not None and found.data == self._written:
                return found.stat.generation
            return self._generation


def parse(data: bytes) -> RunRecord | None:
    """Read a record's bytes, of this version or an earlier one; None for bytes that are none.

    Raises `Busy` for a record of a later version.
    """
    try:
        raw = json.loads(data)
        _refuse_newer(raw)
        past = tuple(
            Past(row["failure_class"], Action(row["action"]), row["step"], row.get("at", 0.0))
            for row in raw.pop("past")
        )
        raw = {each.name: raw[each.name] for each in fields(RunRecord) if each.name in raw}
        return RunRecord(**{**raw, "past": past, "recoveries": tuple(raw["recoveries"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _refuse_newer(raw: Mapping[str, Any]) -> None:
    told = raw.get("format", FORMAT)
    if isinstance(told, int) and told > FORMAT:
        raise Busy(
            f"run {raw.get('run_id')} is on record in the form {told} of a later version of tpuops, and this one knows "
            f"{FORMAT}; nothing was touched",
            hint="use that version, or a later one",
        )


def next_attempt(record: RunRecord, node_id: str) -> RunRecord:
    """The same run, one attempt later, on this node."""
    return replace(record, attempt=record.attempt + 1, node_id=node_id)
