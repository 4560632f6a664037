"""A request and a reply as the core sees them, whatever carried them.

The HTTP skin and the tests in virtual time both speak these two values; nothing here knows of sockets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `path` is percent-encoded and without the path key; header names are lower case.

    `asked_at` is set when the skin asks a held request once more, to the epoch seconds of the first asking: it is
    counted only once. `held_etag` is then the entity tag of the first answer.
    `base` is what stands before `path` in the caller's URLs, for links in replies.
    """

    verb: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    asked_at: float | None = None
    held_etag: str = ""
    base: str = "http://localhost"


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer.

    Attributes:
        hold_until: epoch seconds; the skin asks the same request again then and sends only the last answer.
        drop: close the connection without an answer (what the call did is done all the same).
        delay_s: seconds to wait before the answer leaves.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    hold_until: float | None = None
    drop: bool = False
    delay_s: float = 0.0


LINK = "tpuops-local-link://"
"""Stands in stored documents for the caller's base URL and its slash, since port and path key change at each start."""


def linked(reply: Reply, base: str) -> Reply:
    """The reply with every link in a JSON body made to start with `base`."""
    if LINK.encode() not in reply.body or "json" not in reply.headers.get("Content-Type", ""):
        return reply
    return replace(reply, body=reply.body.replace(LINK.encode(), f"{base}/".encode()))


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply that carries one JSON document."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return Reply(status, {"Content-Type": "application/json; charset=UTF-8", **(headers or {})}, body)
