"""A request and a reply as the core sees them, whatever carried them.

The HTTP skin and the tests in virtual time both speak these two values; nothing here knows of sockets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `path` is percent-encoded and without the path key; header names are lower case.

    `again` is set when the skin asks a held request once more: it is neither logged nor counted a second time.
    `base` is what stands before `path` in the caller's URLs, for links in replies.
    """

    verb: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    again: bool = False
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


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply that carries one JSON document."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return Reply(status, {"Content-Type": "application/json; charset=UTF-8", **(headers or {})}, body)
