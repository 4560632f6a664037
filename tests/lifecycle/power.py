"""What a disk may hold after a power cut, from the operations on files that led there. Pure.

The rules are those of POSIX, as ALICE reads them (Pillai et al., OSDI 2014): what a file holds is on the disk once it
is synced, a name once its folder is; of the rest anything may be there. Not modelled: a folder that is lost with all
that is in it, which is the state where nothing is there.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

State = Mapping[str, bytes]
"""The files, by their path below the folder."""


@dataclass
class File:
    """What a file holds, and of that what is on the disk for certain."""

    data: bytes = b""
    synced: bytes = b""

    def torn(self, fill: bytes) -> bytes:
        """With half of what was added since, and `fill` in place of each byte of the other half."""
        if not self.data.startswith(self.synced):
            return self.data[: len(self.data) // 2]
        half = (len(self.data) + len(self.synced)) // 2
        return self.data[:half] + fill * (len(self.data) - half)


@dataclass
class Disk:
    """One folder: the files by name as they are to be seen, and the names that are on the disk for certain."""

    names: dict[str, File] = field(default_factory=dict)
    settled: dict[str, File] = field(default_factory=dict)

    def apply(self, op: Mapping[str, Any]) -> None:
        """One operation as the recorder wrote it down."""
        kind, path = op["op"], op["path"]
        if kind == "make":
            self.names[path] = File()
        elif kind == "data":
            self.names[path].data = base64.b64decode(op["data"])
        elif kind == "sync":
            self._sync(path)
        elif kind == "rename":
            self.names = {_moved(name, path, op["to"]): file for name, file in self.names.items() if name != op["to"]}
            self.settled = {_within(name, path, op["to"]): file for name, file in self.settled.items()}
        elif kind == "link":
            self.names[op["to"]] = self.names[path]
        elif kind == "remove":
            del self.names[path]
        elif kind != "mkdir":
            raise ValueError(f"nothing is known of {op}")

    def _sync(self, path: str) -> None:
        if path in self.names:
            self.names[path].synced = self.names[path].data
            return
        inside = lambda name: str(PurePath(name).parent) == path  # noqa: E731 - used twice, here only
        kept = {name: file for name, file in self.settled.items() if not inside(name)}
        self.settled = kept | {name: file for name, file in self.names.items() if inside(name)}

    def after_a_cut(self) -> Iterator[State]:
        """All that may be there if the power goes now, the likely and the unlikely."""
        yield {name: file.data for name, file in self.names.items()}
        yield {name: file.synced for name, file in self.settled.items()}
        yield {name: file.synced for name, file in self.names.items()}
        yield {name: file.torn(b"") for name, file in self.names.items()}
        yield {name: file.torn(b"\0") for name, file in self.names.items()}


def _within(name: str, path: str, to: str) -> str:
    """The name after a folder of that path was renamed."""
    return f"{to}{name[len(path) :]}" if name.startswith(f"{path}/") else name


def _moved(name: str, path: str, to: str) -> str:
    return to if name == path else _within(name, path, to)


def states(ops: Iterable[Mapping[str, Any]]) -> list[State]:
    """Every different state that a cut before, between or after the operations may leave, in their order."""
    disk, found = Disk(), {frozenset[tuple[str, bytes]](): None}
    for op in ops:
        disk.apply(op)
        found |= {frozenset(state.items()): None for state in disk.after_a_cut()}
    return [dict(state) for state in found]


def unsettled(ops: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The files that were not certain to be there, whole, when all was over; each with what is lacking."""
    disk = Disk()
    for op in ops:
        disk.apply(op)
    data = {name: "data" for name, file in disk.names.items() if file.synced != file.data}
    return data | {name: "name" for name, file in disk.names.items() if disk.settled.get(name) is not file}
