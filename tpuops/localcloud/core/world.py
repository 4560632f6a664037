"""Everything the embedded cloud remembers: JSON documents by kind and key, and object bytes by their hash.

The world notes what was written since it was last asked, so that the store persists exactly that, in one transaction,
before the reply leaves. It decides nothing, and reaches no disk by itself.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

Document = dict[str, Any]
Seen = TypeVar("Seen")


@dataclass(slots=True)
class Dirt:
    """What changed since the last look: None stands for a deleted document or for bytes nothing refers to.

    `kinds` are those of the documents.
    """

    documents: dict[tuple[str, str], Document | None] = field(default_factory=dict)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.documents or self.contents)


class World:
    """The documents. A document handed out may be changed in place, followed by `put`.

    Args:
        documents: what an earlier process left, by (kind, key).
        contents: object bytes by sha256; a mapping that reads from disk will do.
    """

    def __init__(
        self,
        documents: Mapping[tuple[str, str], Document] | None = None,
        contents: MutableMapping[str, bytes] | None = None,
    ) -> None:
        self._kinds: dict[str, dict[str, Document]] = {}
        self._sorted: dict[str, list[str]] = {}
        self._views: dict[str, dict[Callable[..., Any], Any]] = {}
        self._contents: MutableMapping[str, bytes] = {} if contents is None else contents
        self._references: dict[str, int] = {}
        self._dirt = Dirt()
        for (kind, key), document in (documents or {}).items():
            self._kinds.setdefault(kind, {})[key] = document
            self._refer(document, +1)

    def get(self, kind: str, key: str) -> Document | None:
        """The document, or None."""
        return self._kinds.get(kind, {}).get(key)

    def put(self, kind: str, key: str, document: Document) -> Document:
        """Write it, whole."""
        of_kind = self._kinds.setdefault(kind, {})
        before = of_kind.get(key)
        if before is None:
            self._sorted.pop(kind, None)
        if before is not document:
            self._refer(document, +1)
            self._refer(before, -1)
        of_kind[key] = document
        self._dirt.documents[kind, key] = document
        self._dirt.kinds.add(kind)
        self._views.pop(kind, None)
        return document

    def drop(self, kind: str, key: str) -> None:
        """Delete it; nothing happens where it is not there."""
        gone = self._kinds.get(kind, {}).pop(key, None)
        if gone is not None:
            self._refer(gone, -1)
            self._dirt.documents[kind, key] = None
            self._dirt.kinds.add(kind)
            self._sorted.pop(kind, None)
            self._views.pop(kind, None)

    def items(self, kind: str, prefix: str = "") -> Iterator[tuple[str, Document]]:
        """Keys below `prefix` with their documents, by key; safe against changes meanwhile."""
        of_kind = self._kinds.get(kind)
        if not of_kind:
            return
        keys = self._sorted.get(kind)
        if keys is None:
            keys = self._sorted[kind] = sorted(of_kind)
        for index in range(bisect_left(keys, prefix), len(keys)):
            key = keys[index]
            if not key.startswith(prefix):
                return
            document = of_kind.get(key)
            if document is not None:
                yield key, document

    def view(self, kind: str, look: Callable[[Mapping[str, Document]], Seen]) -> Seen:
        """What `look` sees in the documents of a kind; it looks again only after one of them was written."""
        views = self._views.setdefault(kind, {})
        if look not in views:
            views[look] = look(self._kinds.get(kind, {}))
        seen: Seen = views[look]
        return seen

    def count(self, kind: str) -> int:
        """How many documents of a kind there are."""
        return len(self._kinds.get(kind, {}))

    def keep(self, data: bytes) -> str:
        """Remember bytes; returns the hash by which a document's `content` field refers to them."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._references:
            self._contents[digest] = data
            self._dirt.contents[digest] = data
        return digest

    def content(self, digest: str) -> bytes:
        """The bytes of that hash."""
        return self._contents[digest]

    def changed(self, beside: Set[str] = frozenset()) -> bool:
        """Whether documents of other kinds than these were written since the last `take_dirt`."""
        return not self._dirt.kinds <= beside

    def take_dirt(self) -> Dirt:
        """What changed since the last call."""
        dirt, self._dirt = self._dirt, Dirt()
        return dirt

    def give_back(self, dirt: Dirt) -> None:
        """What could not be saved is to be saved with the next changes; newer ones win."""
        later = self._dirt
        documents, contents = {**dirt.documents, **later.documents}, {**dirt.contents, **later.contents}
        self._dirt = Dirt(documents, contents, dirt.kinds | later.kinds)

    def clear(self, but: tuple[str, ...] = ()) -> None:
        """Forget everything except the kinds named."""
        for kind in [kind for kind in self._kinds if kind not in but]:
            for key in list(self._kinds[kind]):
                self.drop(kind, key)

    def _refer(self, document: Document | None, by: int) -> None:
        digest = (document or {}).get("content")
        if not isinstance(digest, str):
            return
        left = self._references.get(digest, 0) + by
        if left > 0:
            self._references[digest] = left
            return
        self._references.pop(digest, None)
        self._contents.pop(digest, None)
        self._dirt.contents[digest] = None
