"""Machines over SSH on loopback: asyncssh's server with real bash processes, and a proxy that can go silent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import asyncssh

from tpuops.remote.port import Host


class Machine:
    """An sshd for one home. `authorized` holds public lines and may change; `commands` are what was asked for."""

    def __init__(self, home: Path) -> None:
        self.home, self.authorized, self.commands = home, list[str](), list[str]()
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.connections: list[asyncssh.SSHServerConnection] = []
        self.processes: list[asyncio.subprocess.Process] = []
        self.port = 0
        self._server: asyncssh.SSHAcceptor | None = None

    async def open(self) -> None:
        machine = self

        class Door(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                machine.connections.append(conn)

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
                line = " ".join(key.export_public_key().decode().split()[:2])
                return any(known.startswith(line) for known in machine.authorized)

        self._server = await asyncssh.listen(
            "127.0.0.1", self.port, server_factory=Door, server_host_keys=[self.host_key], encoding=None,
            process_factory=self._serve, reuse_address=True,
        )  # fmt: skip
        self.port = self._server.get_port()

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self.commands.append(process.command or "")
        env = {**os.environ, "HOME": str(self.home), "TMUX_TMPDIR": str(self.home)}
        shell = await asyncio.create_subprocess_exec(
            "bash", "-c", process.command or "true", env=env, cwd=self.home, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.processes.append(shell)
        assert shell.stdin and shell.stdout and shell.stderr
        feeding = asyncio.create_task(self._feed(process, shell.stdin))
        with contextlib.suppress(OSError, asyncssh.Error):
            await asyncio.gather(_pump(shell.stdout, process.stdout), _pump(shell.stderr, process.stderr))
        code = await shell.wait()
        feeding.cancel()
        with contextlib.suppress(OSError, asyncssh.Error):
            process.exit(code if code >= 0 else 128 - code)

    @staticmethod
    async def _feed(process: asyncssh.SSHServerProcess[bytes], stdin: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await process.stdin.read(65536):
                stdin.write(data)
                await stdin.drain()
        stdin.close()

    def drop(self) -> None:
        """Every connection, at once, as a cut cable would after the time-out."""
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    async def shut(self) -> None:
        """No more connections; nobody listens."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def end(self) -> None:
        self.drop()
        await self.shut()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def host(self, **other: Any) -> Host:
        line = " ".join(self.host_key.export_public_key().decode().split()[:2])
        values: dict[str, Any] = {"address": "127.0.0.1", "host_keys": (line,), "port": self.port, **other}
        return Host("machine-0", user="someone", **values)


async def _pump(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()


class Proxy:
    """Passes bytes on to a port until it is told to be silent: a half-open link. It may greet late."""

    def __init__(self, port: int) -> None:
        self.target, self.port, self.silent = port, 0, False
        self.greets_after_s, self.opened = 0.0, 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.opened += 1
        await asyncio.sleep(self.greets_after_s)
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))
        except (OSError, asyncio.CancelledError):
            return
        finally:
            writer.close()
            other_writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.silent:
                writer.write(data)
                await writer.drain()
        writer.close()

    async def end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
