"""A server of canned replies on loopback: what a service may say is written in the test that needs it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tpuops.clock import SystemClock
from tpuops.cloud import retry
from tpuops.cloud.calls import Call
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.endpoints import at

LOSE = "lose the reply"


@dataclass
class Seen:
    """One request as it arrived."""

    verb: str
    path: str
    query: str
    body: bytes


@dataclass
class Canned:
    """Replies by `VERB path-part`, each used once in order; the last of a list stays. Unknown requests get a 404."""

    url: str = ""
    replies: dict[str, list[Any]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    def say(self, request: str, *replies: Any) -> None:
        self.replies[request] = list(replies)

    def asked(self, verb: str, part: str) -> int:
        return sum(1 for seen in self.seen if seen.verb == verb and part in seen.path)

    def reply_to(self, seen: Seen) -> Any:
        self.seen.append(seen)
        for request, replies in self.replies.items():
            verb, _, part = request.partition(" ")
            if verb == seen.verb and part in f"{seen.path}?{seen.query}":
                return replies.pop(0) if len(replies) > 1 else replies[0]
        return 404, {
            "error": {"code": 404, "message": f"nothing canned for {seen.verb} {seen.path}", "status": "NOT_FOUND"}
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    canned: Canned

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        path, _, query = self.path.partition("?")
        assert path.startswith("/k-test/"), path
        reply = self.canned.reply_to(Seen(self.command, path.removeprefix("/k-test"), query, self.rfile.read(size)))
        if reply == LOSE:
            self.close_connection = True
            self.connection.close()
            return
        status, body, *more = reply
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **(more[0] if more else {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        date = self.date_time_string()
        self.wfile.write(f"HTTP/1.1 {status} x\r\nDate: {date}\r\n{head}\r\n".encode() + data)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Silent."""

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            self.close_connection = True  # the socket was closed on purpose


@pytest.fixture
def canned() -> Iterator[Canned]:
    script = Canned()
    handler = type("Handler", (_Handler,), {"canned": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}/k-test"
    yield script
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def cloud(canned: Canned, calls: list[Call]) -> GoogleCloud:
    return GoogleCloud(at(canned.url, 22), SystemClock(), calls.append)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries of a few milliseconds."""
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.002)
