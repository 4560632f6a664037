"""The HTTP side of the embedded cloud: turns what arrives on loopback into core requests, and replies into bytes.

It guards the door (path key, no browser) and keeps the promises of `Reply`: held answers, lost ones, late ones. It
knows no service and no resource. Every answer leaves in one buffer: split small writes cost 40 ms on loopback.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from tpuops.localcloud import tunnel
from tpuops.localcloud.core.identity.iap import CONNECT, ROOT
from tpuops.localcloud.core.wire import Reply, Request

MAX_BODY = 4 * 1024**3
SHUTDOWN_S = 0.5
BODILESS = frozenset({204, 304})
KEYLESS_STARTS = ("/upload/storage/", "/resumable/upload/storage/")
"""gcloud drops the path of an endpoint override when it uploads; such a request must bring a token instead."""

Answer = Callable[[Request], Reply]
"""Asks the core now, and has its changes saved."""


class Skin:
    """The listening socket.

    Args:
        key: the path's first segment (`k-...`) that callers must know.
        answer: how to ask the core.
        knows: whether an access token is one of this cloud's, and alive.
        now: epoch seconds.
    """

    def __init__(self, key: str, answer: Answer, knows: Callable[[str], bool], now: Callable[[], float]) -> None:
        self._key = key
        self._answer = answer
        self._knows = knows
        self._now = now
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def open(self, port: int) -> int:
        """Listen on 127.0.0.1; 0 takes any free port. Returns the port; raises OSError."""
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_S, keepalive_timeout=300)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, backlog=512)
        await site.start()
        bound = int(self._runner.addresses[0][1])
        self.url = f"http://127.0.0.1:{bound}/{self._key}"
        return bound

    async def open_tunnel(self, context: ssl.SSLContext) -> str:
        """Listen for tunnels over TLS too, on a free port; the URL to connect to."""
        assert self._runner is not None
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        return f"wss://127.0.0.1:{self._runner.addresses[-1][1]}/{self._key}{ROOT}"

    async def close(self) -> None:
        """Close the sockets and every connection."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        if incoming.headers.get("Origin", tunnel.ORIGIN) != tunnel.ORIGIN:
            return web.Response(status=403, text="Requests from browsers are refused.\n")
        path = self._admitted(incoming)
        if not path:
            return web.Response(status=404, text="Not Found\n")
        query = incoming.raw_path.partition("?")[2]
        request = Request(
            verb=incoming.method,
            path=path,
            query=_query(query),
            headers={name.lower(): value for name, value in incoming.headers.items()},
            body=await incoming.read() if incoming.body_exists else b"",
            base=self.url,
        )
        reply = await self._held(incoming, request)
        if path == CONNECT and reply.status == 200:
            return await _carried(incoming, json.loads(reply.body))
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.drop and incoming.transport is not None:
            incoming.transport.abort()
        return _response(reply) if reply.cut_at is None else await _cut(incoming, reply, reply.cut_at)

    def _admitted(self, incoming: web.Request) -> str:
        """The path behind the key; empty where the caller knows neither the key nor, for an upload, a token."""
        path = incoming.raw_path.partition("?")[0]
        key, _, rest = path.lstrip("/").partition("/")
        if hmac.compare_digest(key.encode(), self._key.encode()):
            return "/" + rest.lstrip("/")
        scheme, _, token = incoming.headers.get("Authorization", "").partition(" ")
        if path.startswith(KEYLESS_STARTS) and scheme == "Bearer" and self._knows(token.strip()):
            return path
        return ""

    async def _held(self, incoming: web.Request, request: Request) -> Reply:
        """Ask, and ask again for as long as the reply wants to be held and somebody listens."""
        asked_at = self._now()
        reply = self._answer(request)
        request = request._replace(asked_at=asked_at, held_etag=reply.headers.get("ETag", ""))
        while reply.hold_until is not None and incoming.transport is not None:
            await asyncio.sleep(max(0.001, reply.hold_until - self._now()))
            reply = self._answer(request)
        return reply


def _query(text: str) -> dict[str, str]:
    """The parameters; the values of one that is given several times are joined by commas."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


async def _carried(incoming: web.Request, to: dict[str, Any]) -> web.StreamResponse:
    """The one answer that is no document: what comes and goes is a machine's."""
    if "close" in to:
        return await tunnel.refuse(incoming, to["close"], to["reason"])
    return await tunnel.carry(incoming, to["address"], to["port"])


async def _cut(incoming: web.Request, reply: Reply, at: int) -> web.StreamResponse:
    """An answer that breaks off after `at` bytes of its body, or stands still there and goes on."""
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = len(reply.body)
    await response.prepare(incoming)
    await response.write(reply.body[:at])
    if reply.pause_s:
        await asyncio.sleep(reply.pause_s)
        await response.write(reply.body[at:])
    elif incoming.transport is not None:
        incoming.transport.close()  # what was written still arrives
    return response


def _response(reply: Reply) -> web.Response:
    status = reply.status or 500
    body = None if status in BODILESS else reply.body
    return web.Response(status=status, headers=reply.headers, body=body)
