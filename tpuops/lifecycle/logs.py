"""logs: what an attempt of the run said, from the machine while it stands, else from the bucket. Reads only.

Following goes on over recoveries: where somebody supervises the run, the next attempt's log comes after this one's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from tpuops.errors import TpuopsError, Unreachable
from tpuops.lifecycle.machine import agent_on, found_node
from tpuops.lifecycle.site import Site
from tpuops.remote.port import Agent, AgentStatus, Exit, LogChunk
from tpuops.resources import Node
from tpuops.stages import holders, lease
from tpuops.stages import run as runs
from tpuops.stages.record import RUNNING, Records, RunRecord

LOOK_S = 1.0
SILENT_S = 120.0
_SAVED = re.compile(r"saved/logs/(\d+)/train\.log$")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which log: `attempt` 0 is the newest, `run_id` empty the run on record, `saved` the bucket's copy in any case."""

    attempt: int = 0
    follow: bool = False
    saved: bool = False
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What was shown: `source` is machine or bucket; `end` is None where the attempt lives or nobody recorded it."""

    run_id: str
    attempt: int
    source: str
    end: Exit | None = None
    alive: bool = False


@dataclass(slots=True)
class Reader:
    """One reading: where the bytes go, whom to tell what happens meanwhile, and how far it came."""

    site: Site
    show: Callable[[bytes], None]
    say: Callable[[str], None]
    run_id: str = ""
    attempt: int = 0
    offset: int = 0


class _NotBegun(Exception):
    """The machine stands, and the attempt has no process on it yet."""


async def logs(reader: Reader, wanted: Wanted) -> Told:
    """Show one log, or follow.

    Raises:
        TpuopsError: there is no such log.
        Unreachable: the machine stands and does not let us in.
    """
    if wanted.saved or wanted.run_id:
        return await _saved(reader, wanted)
    node = await found_node(reader.site)
    if node is None or not node.is_ready:
        state = "no TPU stands" if node is None else f"the TPU is {node.state}"
        reader.say(f"{state}; this is the log saved in the bucket")
        return await _saved(reader, wanted)
    return await _live(reader, node, wanted)


async def _live(reader: Reader, node: Node, wanted: Wanted) -> Told:
    async with agent_on(reader.site, node) as agent:
        status = await agent.status()
        if not status.run_id:
            raise TpuopsError(
                f"no training was started on {node.name}", hint=f"{reader.site.typed('train')} starts one"
            )
        reader.run_id, reader.attempt = status.run_id, wanted.attempt or status.attempt
        if not 1 <= reader.attempt <= status.attempt:
            raise TpuopsError(
                f"run {status.run_id} has no attempt {reader.attempt}", hint=f"its newest is {status.attempt}"
            )
        if not wanted.follow and reader.attempt == status.attempt and not status.pid:
            raise TpuopsError(
                f"attempt {status.attempt} of run {status.run_id} has said nothing yet: it is being set up",
                hint=f"{reader.site.typed('logs', '--follow')} waits for it",
            )
        whole = wanted.follow or reader.attempt != status.attempt or not status.alive
        if not wanted.follow:
            return await _read(reader, agent, status, None if whole else status.log_bytes)
    return await _follow(reader, stay=bool(wanted.attempt))


async def _read(reader: Reader, agent: Agent, status: AgentStatus, size: int | None) -> Told:
    """The log from where the reader is up to `size` bytes, or to the attempt's end."""
    if size is not None and reader.offset >= size:
        return Told(reader.run_id, reader.attempt, "machine", alive=status.alive)
    async with aclosing(agent.follow(reader.run_id, reader.attempt, reader.offset)) as items:  # type: ignore[type-var]
        async for item in items:
            if not isinstance(item, LogChunk):
                return Told(reader.run_id, reader.attempt, "machine", item if isinstance(item, Exit) else item.exit)
            reader.show(item.data)
            reader.offset = item.offset + len(item.data)
            if size is not None and reader.offset >= size:
                return Told(reader.run_id, reader.attempt, "machine", alive=True)
    raise Unreachable("the log stream ended without saying how the training ended")


async def _follow(reader: Reader, *, stay: bool) -> Told:
    """Attempt after attempt, over as many connections as it takes while somebody supervises; `stay` with the first."""
    silent_since: float | None = None
    waited_for = 0
    while True:
        try:
            told = await _once(reader)
            silent_since = None
        except _NotBegun:
            if not await _supervised(reader):
                return Told(reader.run_id, reader.attempt, "machine")
            if waited_for != reader.attempt:
                reader.say(f"attempt {reader.attempt} is being set up; waiting for what it says")
            waited_for, silent_since = reader.attempt, None
            await reader.site.clock.sleep(LOOK_S)
            continue
        except Unreachable as error:
            silent_since = silent_since or reader.site.clock.monotonic()
            if reader.site.clock.monotonic() - silent_since > SILENT_S:
                raise
            reader.say(f"connection lost ({error.message}); connecting again")
            await reader.site.clock.sleep(LOOK_S)
            continue
        following = None if stay else await _next(reader)
        if following is None:
            return told
        reader.say(f"attempt {reader.attempt} ended; going on with attempt {following}")
        reader.attempt, reader.offset = following, 0


async def _once(reader: Reader) -> Told:
    """Follow the attempt over one connection; a machine that is gone, or has gone on, is its end without a record."""
    node = await found_node(reader.site)
    if node is None or not node.is_ready:
        return Told(reader.run_id, reader.attempt, "machine")
    async with agent_on(reader.site, node) as agent:
        status = await agent.status()
        if status.run_id in {"", reader.run_id} and (status.attempt, bool(status.pid)) < (reader.attempt, True):
            raise _NotBegun
        if status.run_id != reader.run_id:
            return Told(reader.run_id, reader.attempt, "machine")
        return await _read(reader, agent, status, None)


async def _next(reader: Reader) -> int | None:
    """The attempt after this one, as soon as a supervisor notes it; None where the run ended or nobody supervises."""
    while True:
        record = await _open(reader)
        if record is None:
            return None
        if record.attempt > reader.attempt:
            return record.attempt
        if not await _supervised(reader):
            return None
        await reader.site.clock.sleep(LOOK_S)


async def _open(reader: Reader) -> RunRecord | None:
    """The record of the run that is read, as long as that is open."""
    site = reader.site
    record = await Records(site.store, f"{site.prefix}run.json").read()
    return record if record and record.run_id == reader.run_id and record.state == RUNNING else None


async def _supervised(reader: Reader) -> bool:
    """Whether somebody will go on with the run."""
    held = await reader.site.store.read(f"{reader.site.prefix}lease.json")
    return held is not None and not lease.is_free(held, holders.here()) and await _open(reader) is not None


async def _saved(reader: Reader, wanted: Wanted) -> Told:
    site = reader.site
    if wanted.follow:
        raise TpuopsError(
            "there is nothing to follow: the log comes from the bucket", hint=f"{site.typed('logs')} shows it whole"
        )
    record = await recorded(site)
    run_id = wanted.run_id or record.run_id
    prefix = f"{runs.prefix(run_id)}saved/logs/"
    found = {int(match[1]): stat for stat in await site.store.list(prefix) if (match := _SAVED.search(stat.name))}
    if not found:
        raise TpuopsError(
            f"no log of run {run_id} is in gs://{site.desired.bucket.name}",
            hint="logs are saved when a run ends" if record.state == RUNNING else "was the run id typed right?",
        )
    attempt = wanted.attempt or max(found)
    if attempt not in found:
        there = ", ".join(map(str, sorted(found)))
        raise TpuopsError(f"no log of attempt {attempt} of run {run_id} is saved", hint=f"saved are: {there}")
    kept = await site.store.read(found[attempt].name)
    reader.show(b"" if kept is None else kept.data)
    return Told(run_id, attempt, "bucket")


async def recorded(site: Site) -> RunRecord:
    """The run on record.

    Raises:
        TpuopsError: no run was ever started, or the bucket is not there.
    """
    bucket = await site.cloud.bucket(site.desired.bucket.name)
    record = None if bucket is None else await Records(site.store, f"{site.prefix}run.json").read()
    if record is None:
        raise TpuopsError(
            f"environment {site.environment.name} has no run on record", hint=f"{site.typed('run')} starts one"
        )
    return record
