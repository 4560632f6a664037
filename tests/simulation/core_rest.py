"""The product's plain JSON calls over the core, without sockets: the paths are those that `Rest` sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Sender(Protocol):
    """Sends one request as JSON."""

    async def json(self, verb: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any: ...


class CoreRest:
    """`Rest` over the wire."""

    def __init__(self, wire: Sender) -> None:
        self._wire = wire

    async def json(
        self, service: str, verb: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> Any:
        below = "" if service in {"tpu", "compute", "storage"} else f"/{service}"
        return await self._wire.json(verb, below + path, query, body)

    async def pages(self, service: str, path: str, items: str, query: Mapping[str, str] | None = None) -> list[Any]:
        return list((await self.json(service, "GET", path, query)).get(items, []))
