"""The world on disk: one SQLite file, written in one transaction before a reply leaves.

The write-ahead log survives `kill -9` of the program (not a power cut, which a rehearsal need not). Object bytes are
read when asked for, so that memory does not grow with checkpoints. Nothing here knows what a document means.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from tpuops.localcloud.core.world import Document, World

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (kind TEXT, key TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, data BLOB NOT NULL);
"""


class Store:
    """The file. One process at a time; the server holds the folder's lock.

    Raises sqlite3.Error where the disk refuses: the caller must then not answer.
    """

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_SCHEMA)
        self._contents = _Contents(self._database)
        self._world = World(self._documents(), self._contents)

    @property
    def world(self) -> World:
        """What was saved, with everything done to it since."""
        return self._world

    def save(self) -> None:
        """Write what changed since the last time, all or nothing."""
        dirt = self._world.take_dirt()
        if not dirt:
            return
        kept = [(kind, key, _json(body)) for (kind, key), body in dirt.documents.items() if body is not None]
        gone = [name for name, body in dirt.documents.items() if body is None]
        bytes_kept = [(digest, data) for digest, data in dirt.contents.items() if data is not None]
        bytes_gone = [(digest,) for digest, data in dirt.contents.items() if data is None]
        try:
            with _Transaction(self._database):
                self._database.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", kept)
                self._database.executemany("DELETE FROM documents WHERE kind = ? AND key = ?", gone)
                self._database.executemany("INSERT OR REPLACE INTO contents VALUES (?, ?)", bytes_kept)
                self._database.executemany("DELETE FROM contents WHERE digest = ?", bytes_gone)
        except sqlite3.Error:
            self._world.give_back(dirt)
            raise
        self._contents.saved()

    def close(self) -> None:
        """Save and let go of the file."""
        self.save()
        self._database.close()

    def _documents(self) -> dict[tuple[str, str], Document]:
        rows = self._database.execute("SELECT kind, key, body FROM documents")
        return {(kind, key): json.loads(body) for kind, key, body in rows}


class _Transaction:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database.execute("COMMIT")
        elif self._database.in_transaction:  # a full disk has ended it already
            self._database.execute("ROLLBACK")


class _Contents(MutableMapping[str, bytes]):
    """Object bytes: new ones wait in memory until they are saved, others are read from the file."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._new: dict[str, bytes] = {}

    def saved(self) -> None:
        """The file has them now."""
        self._new.clear()

    def __getitem__(self, digest: str) -> bytes:
        if digest in self._new:
            return self._new[digest]
        row = self._database.execute("SELECT data FROM contents WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise KeyError(digest)
        return bytes(row[0])

    def __setitem__(self, digest: str, data: bytes) -> None:
        self._new[digest] = data

    def __delitem__(self, digest: str) -> None:
        self._new.pop(digest, None)  # the row goes with the next save

    def __iter__(self) -> Iterator[str]:
        yield from self._new

    def __len__(self) -> int:
        return len(self._new)


def _json(document: Document) -> str:
    return json.dumps(document, separators=(",", ":"))
