"""Evidence: what machine and API say of an attempt that failed, beside its log. Reads only.

Everything is asked at once and bounded in time; what could not be had is said, and the verdict is given without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tpuops.cloud.port import CloudReader
from tpuops.errors import AccessError, CloudError, RemoteError
from tpuops.journal import Journal
from tpuops.remote.port import Agent
from tpuops.resources import Node

Answer = TypeVar("Answer")

ASKED_FOR_S = 15.0
STALLED = "stalled.json"
"""Beside the machine's texts: for how long, and in which phase, nothing advanced in a program that was ended for it."""
SYMPTOMS = "symptoms.json"
"""Beside them too: the symptoms that the node got during the attempt. Those it had before stay in its list."""
_EVENTS = {
    "preempted": ("TRUE", "compute.instances.preempted"),
    "maintenance-event": ("TERMINATE_ON_HOST_MAINTENANCE", "compute.instances.terminateOnHostMaintenance"),
}
"""What the machine's metadata server says, and the system event it announces."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was learned. `node` is None where the API did not show the very node; `texts` are the machine's, by name.

    `kernel_log` holds what the kernel said since the attempt began, None where that cannot be told from what it said
    before or to others; `devices` is None where none are expected. `silence_s` and `phase` are there where a living
    program was ended as stalled.
    """

    node: Node | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)
    kernel_log: bytes | None = None
    devices: int | None = None
    events: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    silence_s: float | None = None
    phase: str = ""


async def look(agent: Agent, node: Node, cloud: CloudReader, journal: Journal) -> Found:
    """Ask the machine and the API what they know; `node` is as it was when the attempt began."""
    texts, shown = await asyncio.gather(
        _had(agent.evidence(), journal, "machine"), _had(cloud.node(node.place, node.name), journal, "node")
    )
    if shown is None or shown.id != node.id:
        return found_in(texts or {})
    new = [each.kind for each in shown.symptoms if each not in node.symptoms]
    return found_in({**(texts or {}), **({SYMPTOMS: json.dumps({"new": new}).encode()} if new else {})}, shown)


def found_in(texts: Mapping[str, bytes], node: Node | None = None) -> Found:
    """What a machine's texts say, be they asked for now or saved when it failed."""
    machine, stalled = document(texts.get("machine.json", b"")), document(texts.get(STALLED, b""))
    devices, silence_s = machine.get("device_files"), stalled.get("silence_s")
    return Found(
        node=node,
        texts=texts,
        kernel_log=texts.get("kernel-attempt.txt"),
        devices=devices if isinstance(devices, int) else None,
        events=tuple(event for key, (word, event) in _EVENTS.items() if machine.get(key) == word),
        symptoms=tuple(map(str, document(texts.get(SYMPTOMS, b"")).get("new", ()))),
        silence_s=float(silence_s) if isinstance(silence_s, int | float) else None,
        phase=str(stalled.get("phase", "")),
    )


def document(data: bytes) -> Mapping[str, Any]:
    """A JSON object's bytes; empty for whatever else they are."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def _had(question: Awaitable[Answer], journal: Journal, what: str) -> Answer | None:
    try:
        async with asyncio.timeout(ASKED_FOR_S):
            return await question
    except (RemoteError, CloudError, AccessError) as error:
        journal.record("evidence.incomplete", what=what, why=error.message)
    except TimeoutError:
        journal.record("evidence.incomplete", what=what, why=f"no answer in {ASKED_FOR_S:.0f} s")
    return None
