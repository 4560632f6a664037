"""One login session: a real shell or command in a process group of its own, joined to an SSH channel.

As with OpenSSH's sshd: a lost connection closes the session's pipes and hangs its terminal up (so its processes get
SIGHUP there); what was started to outlive it (tmux) does. A command killed by a signal is reported as that signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
from collections.abc import Mapping
from typing import Any

import asyncssh

from .accounts import home_of
from .terminal import Sink, Source, adopt_terminal, resize

_PASSED_ON = ("LANG", "LC_")  # sshd_config of Google's images: AcceptEnv LANG LC_*


class Sessions:
    """Starts sessions with this environment under every user's own additions."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)

    async def serve(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run what the client asked for until it ends or the client goes."""
        if channel.subsystem:
            channel.exit(127)
            return
        session = _Session(channel, self._of(channel))
        try:
            await (session.with_terminal() if channel.term_type else session.with_pipes())
        except OSError as failure:  # no shell, no terminal left, a home that went: sshd says so and closes
            channel.stderr.write(f"{failure}\n".encode())
            channel.exit(255)

    def _of(self, channel: asyncssh.SSHServerProcess[bytes]) -> dict[str, str]:
        user = channel.get_extra_info("username")
        here, there = channel.get_extra_info("sockname"), channel.get_extra_info("peername")
        own = user_environment(self._environment, user)
        asked = {name: value for name, value in channel.env.items() if name.startswith(_PASSED_ON)}
        connection = {
            "SSH_CLIENT": f"{there[0]} {there[1]} {here[1]}",
            "SSH_CONNECTION": f"{there[0]} {there[1]} {here[0]} {here[1]}",
        }
        return own | asked | connection


def user_environment(base: Mapping[str, str], user: str) -> dict[str, str]:
    """The environment a login of `user` begins with."""
    home = home_of(user)
    path = f"{base['PATH']}:{home}/.local/bin"
    return {**base, "HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "PATH": path}


class _Session:
    def __init__(self, channel: asyncssh.SSHServerProcess[bytes], environment: dict[str, str]) -> None:
        self._channel = channel
        self._environment = environment
        self._terminal: int | None = None

    async def with_pipes(self) -> None:
        """Three pipes, as for `ssh host command`."""
        inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
        process = await self._start((inputs[0], outputs[1], errors[1]))
        await self._join(process, await Sink.of(inputs[1]), [
            (await Source.of(outputs[0]), self._channel.stdout),
            (await Source.of(errors[0]), self._channel.stderr),
        ])  # fmt: skip

    async def with_terminal(self) -> None:
        """A pseudo-terminal, as for a shell, or `ssh -t`."""
        master, slave = pty.openpty()
        resize(slave, self._channel.term_size)
        self._environment |= {"TERM": self._channel.term_type or "dumb", "SSH_TTY": os.ttyname(slave)}
        self._terminal = master
        process = await self._start((slave, slave, slave))
        sink = await Sink.of(os.dup(master))
        await self._join(process, sink, [(await Source.of(master), self._channel.stdout)])

    async def _start(self, descriptors: tuple[int, int, int]) -> asyncio.subprocess.Process:
        command = self._channel.command
        argv = ("bash", "-c", command) if command is not None else ("-bash",)
        options: dict[str, Any] = {"preexec_fn": adopt_terminal} if self._terminal is not None else {}
        try:
            return await asyncio.create_subprocess_exec(
                *argv, executable="/bin/bash", stdin=descriptors[0], stdout=descriptors[1], stderr=descriptors[2],
                env=self._environment, cwd=self._environment["HOME"], start_new_session=True, **options,
            )  # fmt: skip
        finally:
            for descriptor in set(descriptors):
                os.close(descriptor)

    async def _join(self, process: asyncio.subprocess.Process, sink: Sink, outputs: list[tuple[Source, Any]]) -> None:
        """Carry data both ways until the process has ended and its output is drained, or the channel is gone."""
        carry_in = asyncio.create_task(self._feed(process, sink))
        carry_out = [asyncio.create_task(_carry(source, writer)) for source, writer in outputs]
        gone = asyncio.create_task(self._channel.channel.wait_closed())
        ended = asyncio.create_task(self._ended(process, carry_out))
        try:
            await asyncio.wait({gone, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._terminal = None
            for task in (carry_in, gone, ended, *carry_out):
                task.cancel()
            sink.abort()
            for source, _ in outputs:
                source.close()

    async def _ended(self, process: asyncio.subprocess.Process, carry_out: list[asyncio.Task[None]]) -> None:
        status = await process.wait()
        await asyncio.gather(*carry_out)
        self._channel.channel.write_eof()
        if status < 0:
            name = signal.Signals(-status).name.removeprefix("SIG")
            self._channel.exit_with_signal(name, False, "")
        else:
            self._channel.exit(status)

    async def _feed(self, process: asyncio.subprocess.Process, sink: Sink) -> None:
        """Keystrokes, resizes and signals from the client, until it closes its side."""
        while (data := await self._typed(process)) is None or data:
            if data:
                await sink.write(data)
        if self._terminal is None:
            sink.close()

    async def _typed(self, process: asyncio.subprocess.Process) -> bytes | None:
        """What the client sent next, empty at its end; None where it was no data, and has been dealt with."""
        try:
            typed: bytes = await self._channel.stdin.read(1 << 16)
        except asyncssh.TerminalSizeChanged as size:
            if self._terminal is not None:
                resize(self._terminal, (size.width, size.height, size.pixwidth, size.pixheight))
        except asyncssh.SignalReceived as sent:
            _signal_group(process.pid, sent.signal)
        except asyncssh.BreakReceived:
            _signal_group(process.pid, "INT")
        else:
            return typed
        return None


async def _carry(source: Source, writer: Any) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionError):  # the client went; `gone` ends the session
        async for data in source.chunks():
            writer.write(data)
            await writer.drain()


def _signal_group(leader: int, name: str) -> None:
    number = getattr(signal, f"SIG{name}", None)
    if number is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, number)
