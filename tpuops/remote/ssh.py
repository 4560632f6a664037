"""Machines over SSH: connects to the host keys that are known beforehand and no others, and speaks to the agent there.

Uses this environment's own key only: no SSH agent, no configuration of the user's. Says where a connection ended, and
nothing of why, nor of what that means for the training behind it.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from tpuops import templates
from tpuops.clock import Clock, SystemClock
from tpuops.errors import CommandFailed
from tpuops.remote import commands
from tpuops.remote.agent import SshAgent
from tpuops.remote.known import CHANGED, HostKeyChanged, Known, imported
from tpuops.remote.port import Barrier, Host, NotConnected

Result = TypeVar("Result")

# asyncssh gives up at the keepalive after the last one counted: (2 + 1) * 4 s = 12 s after the last byte.
KEEPALIVE_S, KEEPALIVE_COUNT = 4.0, 2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_DIAL_S, _ONE_TRY_S = 15.0, 40.0
"""A machine that is slow to greet (it starts, or looks our name up) needs the longer one."""
_LONGEST_PAUSE_FOR_KEY_S = 3.0
"""Refused logins are what a guard against strangers counts."""
_NO_WAY = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_SAID_LINES = 6


class SshConnector:
    """Opens connections with the private key at `key`; what is known of machines is kept beside it.

    One that does not `learn` leaves no trace of the machines it meets.
    """

    def __init__(
        self, key: Path, clock: Clock | None = None, keepalive_s: float = KEEPALIVE_S, *, learns: bool = True
    ) -> None:
        self._key, self._clock, self._keepalive_s = key, clock or SystemClock(), keepalive_s
        self._known = Known(key.parent / "ssh", learns)

    async def connect(self, host: Host, timeout_s: float) -> SshAgent:
        """Connect, retrying inside `timeout_s` while sshd starts or the key propagates, and install the agent.

        Raises `NotConnected`; `HostKeyChanged`, at once, where the host shows or is said to have another key than the
        known ones; `CommandFailed` where the machine cannot take the agent (disk full).
        """

        async def use(connection: asyncssh.SSHClientConnection) -> SshAgent:
            await install(connection)
            return SshAgent(connection, host.name)

        return await self._patiently(host, timeout_s, use)

    async def probe(self, host: Host, timeout_s: float) -> None:
        """Log in and leave at once. Raises as `connect`."""

        async def use(connection: asyncssh.SSHClientConnection) -> None:
            connection.close()

        await self._patiently(host, timeout_s, use)

    async def _patiently(
        self, host: Host, timeout_s: float, use: Callable[[asyncssh.SSHClientConnection], Awaitable[Result]]
    ) -> Result:
        trusted = imported(host.name, self._known.trusted(host))
        end, pause_s = self._clock.monotonic() + timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return await self._once(host, trusted, max(0.1, end - self._clock.monotonic()), use)
            except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
                raise HostKeyChanged(
                    f"{host.name} at {host.address} shows a host key that is not the known one: {error}",
                    hint="either this is another machine, or someone listens; look at the machine before going on",
                    kind=CHANGED,
                ) from error
            except NotConnected as error:
                if self._clock.monotonic() + pause_s >= end:
                    raise NotConnected(
                        f"no connection to {host.name} at {host.address}:{host.port} within {timeout_s:g} s",
                        barrier=error.barrier,
                        evidence=error.evidence,
                    ) from error
                longest_s = _LONGEST_PAUSE_FOR_KEY_S if error.barrier is Barrier.KEY else _LONGEST_PAUSE_S
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 1.5, longest_s)

    async def _once(
        self,
        host: Host,
        trusted: list[asyncssh.SSHKey],
        left_s: float,
        use: Callable[[asyncssh.SSHClientConnection], Awaitable[Result]],
    ) -> Result:
        try_s = min(left_s, _ONE_TRY_S)
        end = asyncio.get_running_loop().time() + try_s
        way = await self._way(host, min(try_s, _DIAL_S))
        said = way.get("proxy_command", ())[3:4]  # where a proxy's own words go
        try:
            async with asyncio.timeout_at(end):
                connection = await asyncssh.connect(
                    host.address, host.port, username=host.user, client_keys=[str(self._key)],
                    known_hosts=(trusted, [], []), config=None, agent_path=None, gss_host=None, password=None,
                    preferred_auth="publickey", compression_algs=None,
                    keepalive_interval=self._keepalive_s, keepalive_count_max=KEEPALIVE_COUNT, **way,
                )  # fmt: skip
                try:
                    return await use(connection)
                except BaseException:
                    connection.abort()
                    raise
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed):
            raise
        except (OSError, asyncssh.Error, TimeoutError) as error:
            raise _stopped(host, error, said) from error

    async def _way(self, host: Host, try_s: float) -> dict[str, Any]:
        """How asyncssh gets to the machine: over a proxy, or over a socket that is connected already."""
        if host.proxy:
            words = self._known.folder / f"{host.name}.proxy.log"
            words.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return {"proxy_command": commands.with_errors_in(words, host.proxy)}
        return {"sock": await _dialled(host, try_s)}


async def _dialled(host: Host, try_s: float) -> socket.socket:
    """A connected socket, so that silence before the greeting is told from silence after it."""
    family = socket.AF_INET6 if ":" in host.address else socket.AF_INET
    dialling = socket.socket(family, socket.SOCK_STREAM)
    dialling.setblocking(False)
    try:
        async with asyncio.timeout(try_s):
            await asyncio.get_running_loop().sock_connect(dialling, (host.address, host.port))
    except BaseException as error:
        dialling.close()
        if not isinstance(error, OSError):  # TimeoutError is one
            raise
        said = [f"{type(error).__name__}: {error}".rstrip(": ")]
        raise NotConnected(f"no way to {host.name}", barrier=_barrier_of(error), evidence=said) from error
    return dialling


def _barrier_of(error: OSError) -> Barrier:
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return Barrier.SILENT
    if isinstance(error, ConnectionRefusedError):
        return Barrier.CLOSED
    return Barrier.NO_ROUTE if error.errno in _NO_WAY else Barrier.BROKEN


def _stopped(host: Host, error: Exception, said: Sequence[str]) -> NotConnected:
    """Where a try ended that had a way to the machine; `said` names the file with a proxy's own words."""
    lines = [f"{type(error).__name__}: {error}".rstrip(": ")]
    if isinstance(error, asyncssh.PermissionDenied):
        return NotConnected(f"{host.name} lets nobody in", barrier=Barrier.KEY, evidence=lines)
    if not host.proxy:
        return NotConnected(f"{host.name} broke off", barrier=Barrier.BROKEN, evidence=lines)
    for path in said:
        text = Path(path).read_text("utf-8", "replace") if Path(path).exists() else ""
        lines += [line.strip()[:300] for line in text.splitlines() if line.strip()][-_SAID_LINES:]
    return NotConnected(f"the way to {host.name} broke off", barrier=Barrier.PROXY, evidence=lines)


async def install(connection: asyncssh.SSHClientConnection) -> None:
    """Put the agent on the machine unless it is there; named by its content, so that versions never mix."""
    name = templates.agent_digest()
    if (await _run(connection, commands.agent_is_here(name), b"")).exit_status == 0:
        return
    program = templates.agent_program()
    done = await _run(connection, commands.install_agent(name, hashlib.sha256(program).hexdigest()), program)
    if done.exit_status != 0:
        said = done.stderr[-2000:].decode("utf-8", "replace").splitlines()
        raise CommandFailed("the agent could not be installed", exit_status=done.exit_status, evidence=said)


async def _run(connection: asyncssh.SSHClientConnection, argv: Sequence[str], data: bytes) -> Any:
    done = await connection.run(commands.line(argv), input=data, encoding=None, check=False)
    if done.exit_status is None or done.exit_status < 0:
        raise asyncssh.ConnectionLost("the connection broke while the agent was installed")
    return done
