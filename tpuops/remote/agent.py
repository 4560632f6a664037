"""The agent on one machine, spoken to over one SSH connection. Asks and hands on; decides nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from tpuops import templates
from tpuops.errors import CommandFailed, Unreachable
from tpuops.remote import commands, lines, readiness, sync
from tpuops.remote.port import AgentStatus, Exit, LogChunk, RunSpec, Saved
from tpuops.remote.readiness import Question, Readiness

_STDERR_BYTES = 8192
T = TypeVar("T")


class _Talk:
    """One command of the agent while it runs."""

    def __init__(self, process: Any, machine: str) -> None:
        self.process = process
        self.replies = lines.documents(process.stdout, machine)

    async def next(self) -> dict[str, Any] | None:
        """The next reply, or None at the end."""
        return await anext(self.replies, None)

    async def send(self, pieces: Iterable[bytes]) -> None:
        """All of its standard input. An agent that stops listening has answered: its reply says why."""
        with contextlib.suppress(BrokenPipeError):
            for piece in pieces:
                self.process.stdin.write(piece)
                await self.process.stdin.drain()
            self.process.stdin.write_eof()


class SshAgent:
    """One machine, connected. Every method raises `Unreachable` when the connection breaks."""

    def __init__(self, connection: asyncssh.SSHClientConnection, machine: str) -> None:
        self._connection, self._machine = connection, machine
        self._program = templates.agent_digest()

    async def status(self) -> AgentStatus:
        """What runs there now."""
        return await self._ask(lines.status, "status")

    async def sync(self, source: Path, digest: str) -> None:
        """Make the machine's source tree equal to `source`, whose `sync.digest` is `digest`; atomic.

        Nothing is sent where the digest is there. Raises `CommandFailed` where the tree changed while it was sent.
        """
        async with self._talk("sync", digest) as talk:
            first = await self._reply(talk)
            await talk.send(() if first.get("have") else sync.tar(source))
            if (await self._reply(talk))["ok"]["source"] != digest:
                raise ValueError("another tree was taken")

    async def preflight(self, question: Question) -> Readiness:
        """Whether a run can start there; changes nothing but what it removes at once."""
        return await self._ask(readiness.read, "preflight", data=json.dumps(asdict(question)).encode())

    async def prepare(self, spec: RunSpec) -> Mapping[str, str]:
        """Set up as `start` does and start nothing; the versions that the program will find, by package.

        Raises `CommandFailed` with the last lines where setup fails.
        """
        return await self._ask(dict, "prepare", data=json.dumps(_plain(spec)).encode())

    async def start(self, spec: RunSpec) -> AgentStatus:
        """Set up (once per source digest and boot disk) and start the attempt in tmux; finds it if it already lives.

        Raises `Busy` while another run lives there, `CommandFailed` with the last lines where setup fails.
        """
        return await self._ask(lines.status, "start", data=json.dumps(_plain(spec)).encode())

    async def follow(self, run_id: str, attempt: int, offset: int) -> AsyncIterator[LogChunk | Exit | AgentStatus]:
        """The log from `offset`, pushed as it grows, then exactly one `Exit`, or an `AgentStatus` where the process
        vanished without a record."""
        async with self._talk("follow", run_id, str(attempt), str(offset)) as talk:
            while True:
                document = await self._reply(talk)
                if "ok" in document:
                    end = document["ok"]
                    yield lines.ended(end["exit"]) if "exit" in end else lines.status(end["vanished"])
                    return
                yield lines.chunk(document)

    async def stop(self, grace_s: float) -> AgentStatus:
        """SIGTERM, after `grace_s` SIGQUIT, then SIGKILL; returns when nothing of the run is left."""
        return await self._ask(lines.status, "stop", f"{grace_s:g}")

    async def collect(self, bucket: str, prefix: str) -> tuple[Saved, ...]:
        """Upload the run's outputs and logs to `gs://bucket/prefix`, by the machine's own identity.

        Raises `CommandFailed` where any file could not be saved; `evidence` names each.
        """
        saved, failed = await self._ask(lines.collected, "collect", bucket, prefix)
        if failed:
            raise CommandFailed(
                f"{self._machine}: {len(failed)} of {len(failed) + len(saved)} files could not be saved to "
                f"gs://{bucket}/{prefix}",
                exit_status=1,
                evidence=failed,
            )
        return saved

    async def evidence(self) -> Mapping[str, bytes]:
        """Small texts that explain a failure: kernel log tail, device holders, libtpu logs, disk use."""
        return await self._ask(lines.texts, "evidence")

    async def clear(self) -> Mapping[str, object]:
        """End device holders that an earlier run left and remove a stale libtpu lock file; what was done.

        Raises `Busy` while a run lives.
        """
        return await self._ask(dict, "clear")

    async def close(self) -> None:
        """Let go of the connection; the machine goes on."""
        self._connection.close()
        with contextlib.suppress(asyncssh.Error, OSError):
            await self._connection.wait_closed()

    async def _ask(self, read: Callable[[Any], T], *words: str, data: bytes = b"") -> T:
        """One command whose `ok`, once it came, is read with `read`."""
        async with self._talk(*words) as talk:
            await talk.send((data,))
            return read((await self._reply(talk))["ok"])

    @contextlib.asynccontextmanager
    async def _talk(self, *words: str) -> AsyncIterator[_Talk]:
        """Run one command of the agent; whatever breaks the connection meanwhile becomes `Unreachable`."""
        try:
            line = commands.line(commands.agent(self._program, *words))
            process = await self._connection.create_process(line, encoding=None, request_pty=False)
            try:
                yield _Talk(process, self._machine)
            finally:
                process.close()
        except (OSError, asyncssh.Error) as error:
            raise Unreachable(f"the connection to {self._machine} broke: {error}") from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CommandFailed(
                f"{self._machine} sent a reply that makes no sense: {error!r}", exit_status=0
            ) from error

    async def _reply(self, talk: _Talk) -> dict[str, Any]:
        """The next reply. Raises what the agent refused with, or what its silence means."""
        document = await talk.next()
        if document is None:
            await talk.process.wait_closed()
            if not talk.process.exit_status or talk.process.exit_signal:
                raise Unreachable(f"the connection to {self._machine} broke before the answer")
            said = (await talk.process.stderr.read(_STDERR_BYTES)).decode("utf-8", "replace").splitlines()
            raise CommandFailed(
                f"{self._machine}: the agent ended without an answer",
                exit_status=talk.process.exit_status,
                evidence=said[-20:],
            )
        if "error" in document:
            raise lines.refusal(self._machine, document["error"])
        return document


def _plain(spec: RunSpec) -> dict[str, Any]:
    return {
        "run_id": spec.run_id,
        "attempt": spec.attempt,
        "command": spec.command,
        "setup": spec.setup,
        "env": dict(spec.env),
        "outputs": spec.outputs,
        "rehearsal": dict(spec.rehearsal),
        "secrets": dict(spec.secrets),
    }
