"""What the attempts of a run left in the home bucket: logs, how they ended, what was known of a failure. Reads only."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpuops.cloud.port import ObjectStat
from tpuops.diagnosis.signatures import Texts
from tpuops.diagnosis.verdict import Evidence, WorkerEvidence
from tpuops.lifecycle.site import Site
from tpuops.remote.port import Exit, Saved
from tpuops.resources import Node
from tpuops.stages import evidence
from tpuops.stages import run as runs
from tpuops.stages.record import RUNNING, RunRecord

LOG_BYTES = 32 << 20
"""Kept of a log's end; what explains a failure stands there."""
_SAVED = re.compile(r"/(?:saved/logs|evidence)/(?P<attempt>\d+)/(?P<name>.+)$")


@dataclass(slots=True)
class Trace:
    """One attempt's remains. `source` is bucket or machine; `exit` is None where nobody recorded it; `alive`: it runs.

    `found` is what machine and API knew of the failure, `done` what was done about it, `reaped` what the machine said
    that ended itself.
    """

    attempt: int
    log: bytes = b""
    source: str = ""
    exit: Exit | None = None
    alive: bool = False
    found: evidence.Found = field(default_factory=evidence.Found)
    done: Mapping[str, Any] = field(default_factory=dict)
    reaped: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_end(self) -> bool:
        """Whether the attempt surely ended as told here: by itself or as stalled, with all its results saved."""
        own = self.exit is not None and self.reaped.get("lived") is False
        return (own or self.stalled) and self.reaped.get("unsaved") == []

    @property
    def stalled(self) -> bool:
        """Whether it was ended because nothing advanced."""
        return self.found.silence_s is not None

    @property
    def end(self) -> tuple[str, str]:
        """How it ended, of one that did: outcome and words."""
        if self.stalled or self.exit is None:
            return "failed", "it had stalled"
        return "failed" if self.exit.code else "done", f"it had ended with exit code {self.exit.code}"


def evidence_of(trace: Trace, progress: str, texts: Texts) -> Evidence:
    """What there is to judge an attempt by that ended."""
    node, exit = trace.found.node, None if trace.stalled else trace.exit  # an end that we made explains nothing
    worker = WorkerEvidence(
        log=trace.log,
        exit_code=None if exit is None else exit.code,
        signal=0 if exit is None else exit.signal,
        kernel_log=trace.found.kernel_log,
        devices=trace.found.devices,
    )
    return Evidence(
        (worker,),
        node_state=node.state if node else "",
        node_health=node.health if node else "",
        silence_s=trace.found.silence_s,
        phase=trace.found.phase,
        symptoms=trace.found.symptoms,
        vm_events=trace.found.events,
        progress=progress,
        signatures=texts,
    )


def is_gone(record: RunRecord, node: Node | None) -> bool:
    """Whether an open run's machine is no more, `node` being what stands now."""
    return record.state == RUNNING and (node is None or node.is_lost or node.id != record.node_id)


async def ended(site: Site, record: RunRecord) -> Trace | None:
    """How the attempt on record ended, as the bucket knows it; None where it does not know for sure."""
    found = [each for each in await from_bucket(site, record.run_id, record.attempt) if each.is_end]
    return found[0] if found else None


async def kept_results(site: Site, run_id: str) -> tuple[Saved, ...]:
    """Outputs and logs of a run that are in the bucket."""
    stats = await site.store.list(f"{runs.prefix(run_id)}saved/")
    return tuple(Saved(stat.name, stat.size, stat.md5) for stat in stats)


async def from_bucket(site: Site, run_id: str, only: int = 0) -> list[Trace]:
    """The attempts whose logs or evidence were saved; `only` that one where it is not 0."""
    files: dict[int, dict[str, ObjectStat]] = defaultdict(dict)
    for kind in ("saved/logs/", "evidence/"):
        for stat in await site.store.list(f"{runs.prefix(run_id)}{kind}"):
            named = _SAVED.search(stat.name)
            if named is not None:
                files[int(named["attempt"])][named["name"]] = stat
    return [await _saved(site, number, files[number]) for number in sorted(files) if only in {0, number}]


async def _saved(site: Site, number: int, files: Mapping[str, ObjectStat]) -> Trace:
    async def content(name: str) -> bytes:
        kept = await site.store.read(files[name].name) if name in files else None
        return b"" if kept is None else kept.data

    ended = await content("exit.json")
    known = ("kernel-attempt.txt", "machine.json", evidence.STALLED)
    texts = {name: await content(name) for name in known if name in files}
    return Trace(
        number,
        log=(await content("train.log"))[-LOG_BYTES:],
        source="bucket",
        exit=_exit(ended),
        found=evidence.found_in(texts),
        reaped=evidence.document(await content("reaped.json")),
    )


def _exit(data: bytes) -> Exit | None:
    try:
        told = json.loads(data)
        return Exit(int(told["code"]), int(told.get("signal", 0)))
    except (ValueError, TypeError, KeyError):
        return None
