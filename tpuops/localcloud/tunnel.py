"""Carries a TCP connection over a WebSocket, in the framing of Identity-Aware Proxy's relay, as gcloud speaks it.

One binary message is one frame: a tag of two bytes, then for data and for the session's name a length of four bytes
and the bytes, for an acknowledgement the bytes taken so far in eight. Who may be carried where, the core decides.
Imitated: a relay that broke off is not taken up again (`reconnect`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct

from aiohttp import WSMsgType, web

PROTOCOL = "relay.tunnel.cloudproxy.app"
ORIGIN = "bot:iap-tunneler"
"""What gcloud says it is; no browser can say that."""
_SESSION, _DATA, _ACKNOWLEDGED = 1, 4, 7
_MOST = 16384
_UNANSWERED = 2 * _MOST
_CONNECT_S = 5.0
_NO_BACKEND = 4003


async def refuse(incoming: web.Request, code: int, reason: str) -> web.WebSocketResponse:
    """Take the WebSocket, and close it with what the proxy would say."""
    relay = web.WebSocketResponse(protocols=(PROTOCOL,))
    await relay.prepare(incoming)
    await relay.close(code=code, message=reason.encode())
    return relay


async def carry(incoming: web.Request, address: str, port: int) -> web.WebSocketResponse:
    """Carry everything both ways until either side ends."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(address, port)
    except OSError:
        return await refuse(incoming, _NO_BACKEND, "failed to connect to backend")
    relay = web.WebSocketResponse(protocols=(PROTOCOL,))
    await relay.prepare(incoming)
    name = secrets.token_hex(16).encode()
    await relay.send_bytes(struct.pack(">HI", _SESSION, len(name)) + name)
    outward = asyncio.create_task(_out(relay, reader))
    try:
        await _in(relay, writer)
    finally:
        outward.cancel()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return relay


async def _out(relay: web.WebSocketResponse, reader: asyncio.StreamReader) -> None:
    """From the machine to the client, and its end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_MOST):
            await relay.send_bytes(struct.pack(">HI", _DATA, len(data)) + data)
    await relay.close()


async def _in(relay: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """From the client to the machine; what was taken is acknowledged now and then."""
    taken = acknowledged = 0
    async for message in relay:
        if message.type is not WSMsgType.BINARY or len(message.data) < 2:
            continue
        (tag,) = struct.unpack(">H", message.data[:2])
        if tag != _DATA:
            continue
        (length,) = struct.unpack(">I", message.data[2:6])
        data = message.data[6 : 6 + length]
        try:
            writer.write(data)
            await writer.drain()
        except OSError:
            return
        taken += len(data)
        if taken - acknowledged > _UNANSWERED:
            acknowledged = taken
            await relay.send_bytes(struct.pack(">HQ", _ACKNOWLEDGED, taken))
