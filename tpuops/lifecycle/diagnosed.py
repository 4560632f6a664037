"""diagnose --run: what every attempt of a run left behind, from the home bucket and from the machine while it stands,
and what the cloud said where there is no machine to run on.

Reads only: it gathers each attempt's log, how it ended and the evidence that was saved of it, and has them judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tpuops.diagnosis.engine import engine_for
from tpuops.diagnosis.logs import Known, report_of, report_of_attempt
from tpuops.diagnosis.verdict import Evidence, Past, Shape
from tpuops.errors import AccessError, RemoteError, TpuopsError
from tpuops.facts import catalogue
from tpuops.lifecycle import refused
from tpuops.lifecycle.logs import recorded
from tpuops.lifecycle.machine import agent_on, found_node
from tpuops.lifecycle.refused import Refusal
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.trace import LOG_BYTES, Trace, evidence_of, from_bucket
from tpuops.remote.port import Agent, Exit, LogChunk
from tpuops.resources import Node
from tpuops.stages import evidence, signatures
from tpuops.stages.record import RunRecord
from tpuops.stages.recover import budgets_of

NEWEST = "newest"
"""In place of a run id: the run on record."""


@dataclass(frozen=True, slots=True)
class Traces:
    """A run's attempts in order, with its record's earlier failures and the attempts (`rows`) that they ended.

    `refusal` is what the cloud said to the last try to make machines, where none was made since.
    """

    run_id: str
    attempts: tuple[Trace, ...]
    past: tuple[Past, ...] = ()
    rows: tuple[int, ...] = ()
    best_step: int = -1
    refusal: Refusal | None = None


async def traces(site: Site, asked: str) -> Traces:
    """Everything that is left of a run.

    Raises:
        TpuopsError: there is no such run, or nothing of it is left.
    """
    refusal = await refused.last(site) if asked == NEWEST else None
    try:
        record = await recorded(site)
    except TpuopsError:
        if refusal is None:
            raise
        return Traces("", (), refusal=refusal)
    run_id, node = record.run_id if asked == NEWEST else asked, await found_node(site)
    if refusal is not None and _is_past(refusal, record, node):
        refusal = None
    found = await _left(site, run_id, node)
    if not found and refusal is None:
        raise TpuopsError(
            f"nothing of run {run_id} is in gs://{site.desired.bucket.name} or on a machine",
            hint=f"the run on record is {record.run_id}",
        )
    attempts = tuple(found[number] for number in sorted(found))
    if record.run_id != run_id:
        return Traces(run_id, attempts)
    for row in record.recoveries:
        if row.get("attempt") in found:
            found[row["attempt"]].done = row
    rows = tuple(int(row.get("attempt", 0)) for row in record.recoveries)
    return Traces(run_id, attempts, record.past, rows, record.best_step, refusal)


async def _left(site: Site, run_id: str, node: Node | None) -> dict[int, Trace]:
    """What is left of each attempt, by number."""
    found = {trace.attempt: trace for trace in await from_bucket(site, run_id)}
    if node is not None and node.is_ready:
        found.update({trace.attempt: trace for trace in await _from_machine(site, node, run_id, found)})
    return found


def _is_past(refusal: Refusal, record: RunRecord, node: Node | None) -> bool:
    """Whether a run was begun, or a machine made, after the refusal."""
    made = node.created if node is not None else None
    return refusal.at < datetime.fromisoformat(record.started) or (made is not None and refusal.at < made)


def documents(found: Traces, site: Site, shape: Shape | None) -> list[dict[str, Any]]:
    """One document an attempt, in order, as `diagnose` shows a log's; one that runs is explained by its log alone.

    Beside the log's keys: run_id, attempt, source, alive, exit_code (None where nobody recorded it) and done. What the
    cloud refused comes last, as a document without an attempt.
    """
    environment = site.environment
    known = catalogue.accelerator(environment.tpu.accelerator)
    stands_on = shape or Shape(known.workers if known else 1, spot=environment.tpu.spot)
    texts, budgets = signatures.own(environment), budgets_of(environment)
    engine = engine_for(environment.train.progress or "", texts)
    listed = []
    for trace in found.attempts:
        name = f"attempt {trace.attempt}, worker 0"
        past = tuple(each for each, row in zip(found.past, found.rows, strict=False) if row < trace.attempt)
        if trace.exit is None:
            document = report_of([(name, trace.log)], stands_on, engine=engine)
            assert isinstance(document, dict)
        else:
            told = evidence_of(trace, environment.train.progress or "", texts)
            document = report_of_attempt(Known(name, told, past, found.best_step), stands_on, budgets)
        listed.append(document | _about(found, trace))
    if found.refusal is not None:
        name = f"making the machines ({found.refusal.call})" if found.refusal.call else "making the machines"
        known_of = Known(name, Evidence((), api_errors=(found.refusal.error,), signatures=texts))
        listed.append(report_of_attempt(known_of, stands_on, budgets) | _about(found, None))
    return listed


def _about(found: Traces, trace: Trace | None) -> dict[str, Any]:
    """What a document says of the attempt it is about; of none where machines were refused."""
    return {
        "run_id": found.run_id,
        "attempt": None if trace is None else trace.attempt,
        "source": "cloud" if trace is None else trace.source,
        "alive": trace is not None and trace.alive,
        "exit_code": None if trace is None or trace.exit is None else trace.exit.code,
        "done": "" if trace is None else trace.done.get("action", ""),
    }


async def _from_machine(site: Site, node: Node, run_id: str, known: Mapping[int, Trace]) -> list[Trace]:
    """The attempts that the standing machine ran and the bucket does not have whole."""
    try:
        async with agent_on(site, node) as agent:
            status = await agent.status()
            if status.run_id != run_id:
                return []
            wanted = [n for n in range(1, status.attempt + 1) if n not in known or not known[n].log]
            found = [await _read(agent, run_id, number, status.alive and number == status.attempt) for number in wanted]
            for trace in found:
                trace.found = known[trace.attempt].found if trace.attempt in known else trace.found
            if found and found[-1].attempt == status.attempt and found[-1].attempt not in known:
                found[-1].found = await evidence.look(agent, node, site.cloud, site.journal)
            return [trace for trace in found if trace.log or trace.exit is not None or trace.alive]
    except (RemoteError, AccessError) as error:
        site.journal.record("evidence.incomplete", what="machine", why=error.message)
        return []


async def _read(agent: Agent, run_id: str, number: int, alive: bool) -> Trace:
    """One attempt's log as far as it is written."""
    trace, log = Trace(number, source="machine", alive=alive), bytearray()
    size = (await agent.status()).log_bytes if alive else None
    if size == 0:
        return trace
    async for item in agent.follow(run_id, number, 0):
        if not isinstance(item, LogChunk):
            trace.exit = item if isinstance(item, Exit) else item.exit
            break
        log += item.data
        del log[:-LOG_BYTES]
        if size is not None and item.offset + len(item.data) >= size:
            break
    trace.log = bytes(log)
    return trace
