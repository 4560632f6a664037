"""A world that watches every state which is written into it: the transition tables, as a model that sees each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tpuops.localcloud.core.compute.states import INSTANCE_STEPS
from tpuops.localcloud.core.tpu.states import NODE_STEPS, QUEUE_STEPS
from tpuops.localcloud.core.world import Document, World

Seen = tuple[str, str]
WATCHED: Mapping[str, tuple[str, Mapping[str, frozenset[str]], Callable[[Document], Seen]]] = {
    # Kind: the state it begins in, its table, and where its identity and its state are.
    "tpu.node": ("CREATING", NODE_STEPS, lambda node: (node["shown"]["id"], node["shown"]["state"])),
    "tpu.queue": ("CREATING", QUEUE_STEPS, lambda queue: (queue["shown"]["name"], queue["shown"]["state"]["state"])),
    "compute.instance": ("PROVISIONING", INSTANCE_STEPS, lambda shown: (shown["id"], shown["status"])),
}


class Watched(World):
    """Fails where something goes a step that its table lacks, or is put over something else that is still there."""

    def __init__(self, documents: Mapping[Seen, Document] | None = None) -> None:
        super().__init__(documents)
        found = {(kind, key): each for (kind, key), each in (documents or {}).items() if kind in WATCHED}
        self.seen = {(kind, key): WATCHED[kind][2](each) for (kind, key), each in found.items()}

    def put(self, kind: str, key: str, document: Document) -> Document:
        if kind in WATCHED:
            self._note(kind, key, *WATCHED[kind][2](document))
        return super().put(kind, key, document)

    def drop(self, kind: str, key: str) -> None:
        self.seen.pop((kind, key), None)
        super().drop(kind, key)

    def _note(self, kind: str, key: str, number: str, state: str) -> None:
        first, steps, _ = WATCHED[kind]
        known, before = self.seen.get((kind, key), (number, first))
        assert known == number, f"{key} was put over another one, which was {before}"
        assert (kind, key) in self.seen or state == first, f"{key} begins as {state}"
        assert before == state or state in steps[before], f"{key}: {before} -> {state}"
        self.seen[kind, key] = (number, state)
