"""The machine's side of the one way out of a closed network: the cloud's port, answered here and passed on."""

from __future__ import annotations

import asyncio
import contextlib
import socket

_CHUNK = 1 << 16


async def open_doorway(way: socket.socket, port: int) -> asyncio.Server:
    """Serve the cloud's port on this machine's loopback; each connection is one that the cloud hands in."""
    turn = asyncio.Lock()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with turn:
            there = await asyncio.to_thread(_handed, way)
        if there is None:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(sock=there)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    return await asyncio.start_server(pass_on, "127.0.0.1", port)


def _handed(way: socket.socket) -> socket.socket | None:
    way.send(b"?")
    _, handed, _, _ = socket.recv_fds(way, 1, 1)
    return socket.socket(fileno=handed[0]) if handed else None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
            return
    writer.close()
