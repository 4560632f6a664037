"""The machine's SSH server, on a listening socket that the cloud bound for it (a sandbox may not bind port 22).

It keeps its host key on the machine's disk, so that stop and start show the same one, and it can be told to drop every
connection and refuse new ones for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from datetime import UTC, datetime
from pathlib import Path

import asyncssh

from .accounts import Accounts, home_of
from .sessions import Sessions

_HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_BACKLOG = 128
_MAX_PACING_RATE = 47  # asm-generic/socket.h
_UNPACED = 0xFFFFFFFF


def host_key(file: Path = _HOST_KEY) -> asyncssh.SSHKey:
    """The machine's key, made at the first boot of its disk."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.touch(0o600)
        fresh.write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
        fresh.rename(file)
    key = asyncssh.read_private_key(str(file))
    key.write_public_key(f"{file}.pub")
    return key


class Sshd:
    """Serves SSH on `listener` for the given accounts."""

    def __init__(self, listener: socket.socket, accounts: Accounts, sessions: Sessions, key: asyncssh.SSHKey) -> None:
        self._listener = listener
        self._accounts = accounts
        self._sessions = sessions
        self._key = key
        self.delay_s = 0.0
        self._pace = 0
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._back_at = 0.0
        self._options: asyncssh.SSHServerConnectionOptions | None = None

    async def start(self) -> None:
        """Accept connections from now on."""
        self._options = asyncssh.SSHServerConnectionOptions(
            server_factory=self._login, server_host_keys=[self._key], process_factory=self._sessions.serve,
            sftp_factory=_Files, allow_scp=True, encoding=None, line_editor=False, agent_forwarding=False,
            x11_forwarding=False, keepalive_interval=120, login_timeout=120, server_version="tpuops_rehearsal",
        )  # fmt: skip
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._accepting = asyncio.create_task(self._accept())

    async def drop(self, for_s: float) -> int:
        """Abort every connection, refuse new ones for that many seconds; the number of connections aborted.

        Drops that overlap last until the later end.
        """
        self._back_at = max(self._back_at, asyncio.get_running_loop().time() + for_s)
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
            self._listener.shutdown(socket.SHUT_RD)  # Linux: stops listening, keeps the port; connects are refused
            self._keep(asyncio.create_task(self._return()))
        dropped = list(self._connections)
        for connection in dropped:
            _reset(connection)
        return len(dropped)

    def pace(self, bytes_per_s: int) -> None:
        """Send no faster from now on, on any connection; 0: as fast as it goes."""
        self._pace = bytes_per_s
        for connection in self._connections:
            transport = connection.get_extra_info("socket")
            if transport is not None:
                transport.setsockopt(socket.SOL_SOCKET, _MAX_PACING_RATE, bytes_per_s or _UNPACED)

    async def _return(self) -> None:
        remaining_s = self._back_at - asyncio.get_running_loop().time()
        if remaining_s > 0:
            await asyncio.sleep(remaining_s)
            await self._return()  # another drop may have moved the end
        else:
            self._listener.listen(_BACKLOG)
            self._accepting = asyncio.create_task(self._accept())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(self._listener)
            except ConnectionError:  # the client left while it waited
                continue
            self._keep(asyncio.create_task(self._serve(connected)))

    async def _serve(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._pace:
            connected.setsockopt(socket.SOL_SOCKET, _MAX_PACING_RATE, self._pace)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        # A client that goes away or fails to log in ends its own connection and nothing else.
        with contextlib.suppress(OSError, asyncssh.Error):
            await asyncssh.run_server(connected, options=self._options)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _login(self) -> asyncssh.SSHServer:
        return _Login(self._accounts, self._connections)


def _reset(connection: asyncssh.SSHServerConnection) -> None:
    """Abort it as a dead network path does: the client sees a reset, not a polite end."""
    transport = connection.get_extra_info("socket")
    if transport is not None:
        with contextlib.suppress(OSError):
            transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    connection.abort()


class _Login(asyncssh.SSHServer):  # type: ignore[misc]
    """One client at the door."""

    def __init__(self, accounts: Accounts, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._accounts, self._connections = accounts, connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        shown = " ".join(key.export_public_key().decode().split()[:2])
        return await self._accounts.admits(username, shown, datetime.now(UTC))

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        return True


class _Files(asyncssh.SFTPServer):  # type: ignore[misc]
    """SFTP and SCP: relative paths begin at the user's home; the sandbox is the root."""

    def __init__(self, chan: asyncssh.SSHChannel[bytes]) -> None:
        super().__init__(chan)
        self._home = os.fsencode(home_of(chan.get_extra_info("username")))

    def map_path(self, path: bytes) -> bytes:
        return os.path.join(self._home, path)  # noqa: PTH118  (paths are bytes here)

    def realpath(self, path: bytes) -> bytes:
        return os.path.realpath(self.map_path(path))

    def exit(self) -> None:
        # OpenSSH's scp takes a subsystem that ends without a status for a failure
        if self.channel.get_subsystem() == "sftp":
            self.channel.exit(0)
