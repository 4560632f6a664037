"""Reads the agent's replies. A machine may be broken or hostile: lines are bounded, and must be JSON objects.

What reads one document raises whatever its wrong shape raises (KeyError, TypeError, ValueError, AttributeError); the
caller, who knows the machine, makes one error of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from tpuops.errors import Busy, CommandFailed, TpuopsError
from tpuops.remote.port import AgentStatus, Exit, LogChunk, Saved

LINE_BYTES = 64 << 20
"""Room for what `collect` says of some hundred thousand files."""
_READ_BYTES = 1 << 16


class _Reader(Protocol):
    async def read(self, n: int) -> bytes: ...


async def documents(reader: _Reader, machine: str, limit: int = LINE_BYTES) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects that arrive, line by line. Raises `CommandFailed` for anything else, or for an endless line."""
    held = bytearray()
    while piece := await reader.read(_READ_BYTES):
        held += piece
        while (end := held.find(b"\n")) >= 0:
            line = bytes(held[:end])
            del held[: end + 1]
            yield _document(line, machine)
        if len(held) > limit:
            raise CommandFailed(f"{machine} sent a line of over {limit} bytes", exit_status=0)


def _document(line: bytes, machine: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CommandFailed(f"{machine} sent what is no reply: {line[:80]!r}", exit_status=0)
    return found


def status(document: Mapping[str, Any]) -> AgentStatus:
    """An `AgentStatus` from the agent's document."""
    return AgentStatus(
        boot_id=str(document["boot_id"]),
        run_id=str(document.get("run_id", "")),
        attempt=int(document.get("attempt", 0)),
        pid=int(document.get("pid", 0)),
        alive=bool(document.get("alive", False)),
        exit=ended(document["exit"]) if document.get("exit") else None,
        source=str(document.get("source", "")),
        log_bytes=int(document.get("log_bytes", 0)),
    )


def ended(document: Mapping[str, Any]) -> Exit:
    """An `Exit` from the agent's record of it."""
    return Exit(int(document["code"]), int(document["signal"]))


def chunk(document: Mapping[str, Any]) -> LogChunk:
    """A piece of the log."""
    return LogChunk(int(document["offset"]), base64.b64decode(document["data"], validate=True))


def collected(document: Mapping[str, Any]) -> tuple[tuple[Saved, ...], list[str]]:
    """What was saved, and a line for each file that was not."""
    saved = tuple(Saved(str(file["name"]), int(file["size"]), str(file["md5"])) for file in document["saved"])
    return saved, [f"{file['name']}: {file['error']}" for file in document["failed"]]


def texts(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Named texts, as bytes."""
    return {str(name): base64.b64decode(data, validate=True) for name, data in document.items()}


def refusal(machine: str, error: Mapping[str, Any]) -> TpuopsError:
    """The exception for the agent's `error` document."""
    message, evidence = f"{machine}: {error.get('message', '')}", [str(line) for line in error.get("evidence", [])]
    if error.get("kind") == "busy":
        return Busy(message, evidence=evidence)
    return CommandFailed(message, exit_status=int(error.get("code", 1)), evidence=evidence)
