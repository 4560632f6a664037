"""A request and a reply as the core sees them, whatever carried them.

The HTTP skin and the tests in virtual time both speak these two values; nothing here knows of sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic_core import to_json

NONE: Mapping[str, str] = MappingProxyType({})


class Request(NamedTuple):
    """One call. `path` is percent-encoded and without the path key; header names are lower case.

    `asked_at` is set when the skin asks a held request once more, to the epoch seconds of the first asking: it is
    counted only once. `held_etag` is then the entity tag of the first answer.
    `base` is what stands before `path` in the caller's URLs, for links in replies.
    """

    verb: str
    path: str
    query: Mapping[str, str] = NONE
    headers: Mapping[str, str] = NONE
    body: bytes = b""
    asked_at: float | None = None
    held_etag: str = ""
    base: str = "http://localhost"


class Reply(NamedTuple):
    """What to answer.

    Attributes:
        hold_until: epoch seconds; the skin asks the same request again then and sends only the last answer.
        drop: close the connection without an answer (what the call did is done all the same).
        delay_s: seconds to wait before the answer leaves.
        cut_at: so many bytes of the body leave; then the connection ends, or where `pause_s` is not 0, the answer
            stands still for so many seconds before the rest follows.
    """

    status: int
    headers: Mapping[str, str] = NONE
    body: bytes = b""
    hold_until: float | None = None
    drop: bool = False
    delay_s: float = 0.0
    cut_at: int | None = None
    pause_s: float = 0.0


LINK = "tpuops-local-link://"
"""Stands in stored documents for the caller's base URL and its slash, since port and path key change at each start."""
_LINK = LINK.encode()
_JSON = {"Content-Type": "application/json; charset=UTF-8"}


def linked(reply: Reply, base: str) -> Reply:
    """The reply with every link in a JSON body made to start with `base`."""
    if _LINK not in reply.body or "json" not in reply.headers.get("Content-Type", ""):
        return reply
    return reply._replace(body=reply.body.replace(_LINK, f"{base}/".encode()))


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply that carries one JSON document."""
    return Reply(status, {**_JSON, **headers} if headers else _JSON, to_json(document))
