"""The kernel side of a login session: pipes and pseudo-terminals as asyncio streams. Knows nothing of SSH."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator

_CHUNK = 1 << 16


class Source:
    """The reading end of a pipe, or a terminal's master. Closing it lets the writer feel it (SIGPIPE, SIGHUP)."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._reader, self._transport = reader, transport

    @classmethod
    async def of(cls, descriptor: int) -> Source:
        """Take over the file descriptor."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=_CHUNK)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        return cls(reader, transport)

    async def chunks(self) -> AsyncIterator[bytes]:
        """What arrives, until every writer has closed; a terminal whose last process left ends so too."""
        with contextlib.suppress(OSError):  # Linux: EIO from a master whose terminal nobody holds any more
            while data := await self._reader.read(_CHUNK):
                yield data

    def close(self) -> None:
        """Let go of it at once."""
        self._transport.close()


class Sink:
    """The writing end of a pipe, or a terminal's master."""

    def __init__(self, transport: asyncio.WriteTransport, protocol: _Flow) -> None:
        self._transport, self._flow = transport, protocol

    @classmethod
    async def of(cls, descriptor: int) -> Sink:
        """Take over the file descriptor."""
        loop = asyncio.get_running_loop()
        transport, flow = await loop.connect_write_pipe(_Flow, os.fdopen(descriptor, "wb", buffering=0))
        return cls(transport, flow)

    async def write(self, data: bytes) -> None:
        """Write, waiting while the reader is slow; data for a reader that left is dropped, as a closed pipe does."""
        if not self._transport.is_closing():
            self._transport.write(data)
            await self._flow.free.wait()

    def close(self) -> None:
        """End of input, after what is still queued."""
        self._transport.close()

    def abort(self) -> None:
        """End of input at once, queued data dropped."""
        if not self._flow.lost:  # asyncio's pipe transports may not be aborted once they are gone
            self._transport.abort()


class _Flow(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.lost = False
        self.free = asyncio.Event()
        self.free.set()

    def pause_writing(self) -> None:
        self.free.clear()

    def resume_writing(self) -> None:
        self.free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.free.set()


def resize(descriptor: int, size: tuple[int, int, int, int]) -> None:
    """Tell the terminal its size: columns, rows, and both in pixels."""
    columns, rows, width, height = (min(max(n, 0), 0xFFFF) for n in size)
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))


def adopt_terminal() -> None:
    """In the child, after it became a session leader: its standard input is its controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
