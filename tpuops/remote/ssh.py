"""Machines over SSH: connects to the host keys that are known beforehand and no others, and speaks to the agent there.

Uses this environment's own key only: no SSH agent, no configuration of the user's. Says nothing of what a broken
connection means for the training behind it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncssh

from tpuops import templates
from tpuops.clock import Clock, SystemClock
from tpuops.errors import AccessError, CommandFailed, Unreachable
from tpuops.remote import commands
from tpuops.remote.agent import SshAgent
from tpuops.remote.port import Host

# asyncssh gives up at the keepalive after the last one counted: (2 + 1) * 4 s = 12 s after the last byte.
KEEPALIVE_S, KEEPALIVE_COUNT = 4.0, 2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _ONE_TRY_S = 0.05, 1.0, 15.0


class SshConnector:
    """Opens connections with the private key at `key`."""

    def __init__(self, key: Path, clock: Clock | None = None, keepalive_s: float = KEEPALIVE_S) -> None:
        self._key, self._clock, self._keepalive_s = key, clock or SystemClock(), keepalive_s

    async def connect(self, host: Host, timeout_s: float) -> SshAgent:
        """Connect, retrying inside `timeout_s` while sshd starts or the key propagates, and install the agent.

        Raises `Unreachable`; `AccessError`, at once, where the host shows another key than the known ones;
        `CommandFailed` where the machine cannot take the agent (disk full).
        """
        trusted, end, pause_s = known_keys(host), self._clock.monotonic() + timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return await self._once(host, trusted, max(0.1, end - self._clock.monotonic()))
            except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
                raise AccessError(
                    f"{host.name} at {host.address} shows a host key that is not the known one: {error}",
                    hint="either this is another machine, or someone listens; look at the machine before going on",
                ) from error
            except (OSError, asyncssh.Error, TimeoutError) as error:
                if self._clock.monotonic() + pause_s >= end:
                    raise Unreachable(
                        f"no connection to {host.name} at {host.address}:{host.port} within {timeout_s:g} s",
                        evidence=[f"{type(error).__name__}: {error}"],
                    ) from error
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    async def _once(self, host: Host, trusted: list[asyncssh.SSHKey], left_s: float) -> SshAgent:
        async with asyncio.timeout(min(left_s, _ONE_TRY_S)):
            connection = await asyncssh.connect(
                host.address, host.port, username=host.user, client_keys=[str(self._key)],
                known_hosts=(trusted, [], []), config=None, agent_path=None, gss_host=None, password=None,
                preferred_auth="publickey", compression_algs=None,
                keepalive_interval=self._keepalive_s, keepalive_count_max=KEEPALIVE_COUNT,
            )  # fmt: skip
            try:
                await install(connection)
            except BaseException:
                connection.abort()
                raise
        return SshAgent(connection, host.name)


def known_keys(host: Host) -> list[asyncssh.SSHKey]:
    """The host keys of `host`, read strictly. Raises `AccessError` where there is none, or a line is not one key."""
    keys = []
    for line in host.host_keys:
        try:
            if len(line.splitlines()) != 1 or line != line.strip():
                raise asyncssh.KeyImportError("not one line")
            keys.append(asyncssh.import_public_key(line))
        except (asyncssh.KeyImportError, ValueError) as error:
            raise AccessError(f"{host.name}: not a host key: {line[:60]!r} ({error})") from error
    if not keys:
        raise AccessError(f"{host.name}: no host key is known, and without one nobody is trusted")
    return keys


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
