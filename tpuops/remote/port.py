"""What the floors above may ask of a machine.

A machine is driven through one program of ours on it (`templates/worker/agent.py`, standard library only), whose
vocabulary is `Agent`. The embedded cloud's machines and Google's run the same program; the tests in virtual time
implement this protocol instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from tpuops.errors import Unreachable
from tpuops.remote.readiness import Question, Readiness


@dataclass(frozen=True, slots=True)
class Host:
    """Where a machine's sshd is, and the only host keys it may show (`type base64` lines; never empty).

    `machine` tells this machine from an earlier one of its name: what was known of it holds while this is the same.
    `proxy` is the argv of a program that carries the connection on its standard input and output; empty: none does.
    """

    name: str
    address: str
    user: str
    host_keys: tuple[str, ...]
    port: int = 22
    machine: str = ""
    proxy: tuple[str, ...] = ()


class Barrier(StrEnum):
    """What stood in the way of a connection, as far as it can be told from this side alone."""

    SILENT = "silent"
    """Nobody answered."""
    NO_ROUTE = "no-route"
    """The network says there is no way there."""
    CLOSED = "closed"
    """The machine answers, and nobody listens on the port."""
    BROKEN = "broken"
    """Somebody took the connection and did not get through the greeting."""
    KEY = "key"
    """sshd let nobody in with our key under that user's name."""
    PROXY = "proxy"
    """The program that should carry the connection did not."""


class NotConnected(Unreachable):
    """No connection came about; `barrier` says where the last try ended, `evidence` how."""

    def __init__(self, message: str, *, barrier: Barrier, evidence: Sequence[str] = ()) -> None:
        super().__init__(message, evidence=evidence)
        self.barrier = barrier


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a machine is to run. `run_id` names the run over all its attempts, `attempt` counts from 1.

    `command` and `setup` are argv tuples; `env` is added to the login environment; `rehearsal` holds what differs
    where the machine says `TPUOPS_REHEARSAL=1` (keys: command, env, devices). `secrets` reach the environment of the
    training process alone, not that of the setup, and no file that lasts.
    """

    run_id: str
    attempt: int
    command: tuple[str, ...]
    setup: tuple[tuple[str, ...], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    rehearsal: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Exit:
    """How the training process ended: `code` as the shell counts it (128 + signal), `signal` 0 where none."""

    code: int
    signal: int = 0


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """What a machine says of the run on it. `run_id` is empty where it never ran one; `pid` is the training process.

    `exit` is None while it runs, and also where it vanished without a record (then `alive` is False).
    `source` is the digest of the synced source tree, empty before the first sync.
    """

    boot_id: str
    run_id: str = ""
    attempt: int = 0
    pid: int = 0
    alive: bool = False
    exit: Exit | None = None
    source: str = ""
    log_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of the attempt's log from `offset` on, cut at a line's end wherever one is there."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Saved:
    """One output file a worker uploaded: object name, size in bytes, base64 md5."""

    name: str
    size: int
    md5: str


class Agent(Protocol):
    """One machine, connected. Every method raises `Unreachable` when the connection breaks."""

    async def status(self) -> AgentStatus:
        """What runs there now."""

    async def sync(self, source: Path, digest: str) -> None:
        """Make the machine's source tree equal to `source`; atomic; nothing is sent where the digest is there."""

    async def preflight(self, question: Question) -> Readiness:
        """Whether a run can start there; changes nothing but what it removes at once."""

    async def prepare(self, spec: RunSpec) -> Mapping[str, str]:
        """Set up as `start` does and start nothing; the versions that the program will find, by package."""

    async def start(self, spec: RunSpec) -> AgentStatus:
        """Set up (once per source digest and boot disk) and start the attempt in tmux; finds it if it already lives."""

    def follow(self, run_id: str, attempt: int, offset: int) -> AsyncIterator[LogChunk | Exit | AgentStatus]:
        """The log from `offset`, pushed as it grows, then exactly one `Exit`, or an `AgentStatus` where the process
        vanished without a record."""

    async def stop(self, grace_s: float) -> AgentStatus:
        """SIGTERM, then SIGKILL after `grace_s`; returns when nothing of the run is left."""

    async def collect(self, bucket: str, prefix: str) -> tuple[Saved, ...]:
        """Upload the run's outputs and logs to `gs://bucket/prefix`, by the machine's own identity."""

    async def evidence(self) -> Mapping[str, bytes]:
        """Small texts that explain a failure: kernel log tail, device holders, libtpu logs, disk use."""

    async def close(self) -> None:
        """Let go of the connection; the machine goes on."""


class Connector(Protocol):
    """Opens connections."""

    async def probe(self, host: Host, timeout_s: float) -> None:
        """Log in and leave at once. Raises as `connect`."""

    async def connect(self, host: Host, timeout_s: float) -> Agent:
        """Connect, retrying inside `timeout_s` while sshd starts or the key propagates, and install the agent.

        Raises `NotConnected`; `AccessError` where the host shows another key than the known ones, or where those known
        are not the ones that this very machine had before.
        """
