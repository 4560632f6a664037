"""SSH, played: `Connector` and `Agent` of the product's port, over the played machines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path

from tests.simulation.hosts import opens
from tests.simulation.lives import CURRENT
from tests.simulation.loop import sleep
from tests.simulation.worker import Machine, Played, Record, md5
from tpuops.errors import AccessError, CommandFailed, Unreachable
from tpuops.remote.port import AgentStatus, Barrier, Exit, Host, LogChunk, NotConnected, RunSpec, Saved
from tpuops.remote.readiness import Question, Readiness

LATENCY_S = 0.004
CONNECT_S = 0.03
RETRY_S = 0.25


class PlayedConnector:
    """Connects to played machines by address, with a key whose public part is `public`."""

    def __init__(self, played: Played, public: str) -> None:
        self._played, self._public = played, public

    async def connect(self, host: Host, timeout_s: float) -> PlayedAgent:
        """Connect, trying again until `timeout_s` passed."""
        loop, life = asyncio.get_running_loop(), CURRENT.get()
        deadline = loop.time() + timeout_s
        await life.at("send")
        while True:
            await sleep(CONNECT_S)
            await life.breathe()
            machine, barrier = self._played.at(host.address), Barrier.CLOSED
            if machine is not None and machine.reachable:
                if not set(machine.host_keys) & set(host.host_keys):
                    raise AccessError(f"{host.name} shows a host key that nobody announced")
                barrier = Barrier.KEY
                if opens(self._public, host.user, machine.spec, self._played.net):
                    await life.at("reply")
                    return PlayedAgent(machine)
            if loop.time() + RETRY_S > deadline:
                raise NotConnected(f"{host.name}: no connection", barrier=barrier)
            await sleep(RETRY_S)


class PlayedAgent:
    """One connection to one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._connection = machine.connections
        self._life = CURRENT.get()

    async def _begin(self) -> None:
        await self._life.at("send")
        await sleep(LATENCY_S)
        self._check()

    async def _end(self) -> None:
        await self._life.at("commit")
        await sleep(LATENCY_S)
        await self._life.at("reply")
        self._check()

    def _check(self) -> None:
        if self._connection != self._machine.connections:
            raise Unreachable(f"{self._machine.spec.name}: the connection broke")

    def _status(self) -> AgentStatus:
        record, disk, boot = self._machine.record, self._machine.disk, f"boot-{self._machine.spec.boot}"
        if record is None:
            return AgentStatus(boot, source=disk.source)
        return AgentStatus(
            boot_id=boot,
            run_id=record.spec.run_id,
            attempt=record.spec.attempt,
            pid=record.pid,
            alive=self._machine.alive,
            exit=record.exit,
            source=disk.source,
            log_bytes=len(record.log),
        )

    async def status(self) -> AgentStatus:
        """What runs there now."""
        await self._begin()
        found = self._status()
        await self._end()
        return found

    async def sync(self, source: Path, digest: str) -> None:
        """Note the digest."""
        await self._begin()
        self._machine.disk.source = digest
        await self._end()

    async def preflight(self, question: Question) -> Readiness:
        """All is well with a played machine."""
        await self._begin()
        found = Readiness(source=self._machine.disk.source, device_files=4, clock_s=0.0)
        await self._end()
        return found

    async def prepare(self, spec: RunSpec) -> Mapping[str, str]:
        """Set up once a source, unless a run lives."""
        await self._begin()
        if not self._machine.alive:
            self._set_up(spec)
        await self._end()
        return {"python": "3.10.12"}

    async def start(self, spec: RunSpec) -> AgentStatus:
        """Set up once a source, and start the attempt unless it lives or was started before."""
        await self._begin()
        machine, disk = self._machine, self._machine.disk
        if machine.alive:
            if machine.record is not None and machine.record.spec.run_id != spec.run_id:
                raise CommandFailed(f"run {machine.record.spec.run_id} lives here", exit_status=1)
        elif (spec.run_id, spec.attempt) not in disk.attempts:
            self._set_up(spec)
            machine.launch(spec)
        found = self._status()
        await self._end()
        return found

    def _set_up(self, spec: RunSpec) -> None:
        disk, code = self._machine.disk, self._machine._program.setup_code
        if not spec.setup or disk.source in disk.prepared:
            return
        if code:
            said = "ERROR: No matching distribution found for jaxx==9.9 (from -r requirements.txt (line 1))"
            raise CommandFailed(f"setup command 1 of 1 ended with code {code}", exit_status=code, evidence=[said])
        disk.prepared.add(disk.source)

    async def follow(self, run_id: str, attempt: int, offset: int) -> AsyncIterator[LogChunk | Exit | AgentStatus]:
        """The log as it grows, then how the attempt ended."""
        await self._begin()
        record = self._machine.disk.attempts.get((run_id, attempt))
        if record is None:
            raise CommandFailed(f"run {run_id}, attempt {attempt} never started here", exit_status=1)
        while True:
            data = bytes(record.log[offset:])
            if data:
                yield LogChunk(offset, data)
                offset += len(data)
            elif self._over(record):
                yield record.exit if record.exit is not None else self._status()
                return
            else:
                news = asyncio.get_running_loop().create_future()
                self._machine.listeners.append(news)
                await news
            await sleep(LATENCY_S)
            await self._life.breathe()
            self._check()

    def _over(self, record: Record) -> bool:
        return record is not self._machine.record or not self._machine.alive

    async def stop(self, grace_s: float) -> AgentStatus:
        """SIGTERM ends it at once; what hangs hears only SIGKILL."""
        await self._begin()
        if self._machine.hung:
            await sleep(grace_s)
            self._check()
        self._machine.end(Exit(137, 9) if self._machine.hung else Exit(143, 15))
        await self._end()
        return self._status()

    async def collect(self, bucket: str, prefix: str) -> tuple[Saved, ...]:
        """Upload outputs and logs by the machine's own identity."""
        await self._begin()
        saved, failed = [], []
        for name, data in self._files(prefix.rstrip("/")):
            if self._machine.put(name, data, bucket):
                saved.append(Saved(name, len(data), md5(data)))
            else:
                failed.append(name)
        await self._end()
        if failed:
            raise CommandFailed("some files could not be saved", exit_status=1, evidence=failed)
        return tuple(saved)

    def _files(self, prefix: str) -> list[tuple[str, bytes]]:
        disk = self._machine.disk
        files = [(f"{prefix}/outputs/{name}", data) for name, data in disk.outputs.items()]
        for (run_id, attempt), record in disk.attempts.items():
            if disk.current is not None and run_id == disk.current[0]:
                files.append((f"{prefix}/logs/{attempt}/train.log", bytes(record.log)))
                if record.exit is not None:
                    files.append((f"{prefix}/logs/{attempt}/exit.json", json.dumps(asdict(record.exit)).encode()))
        return files

    async def evidence(self) -> Mapping[str, bytes]:
        """A kernel log's tail."""
        await self._begin()
        await self._end()
        return {"kernel.log": b"nothing unusual\n"}

    async def close(self) -> None:
        """Let go."""
        await self._life.breathe()
