"""A command of tpuops whose changes to files below one folder are written down, in their order.

    python -P recorder.py RECORD FOLDER WORD...

One JSON line an operation. Audit hooks see every opening, renaming, linking, removing and making of folders, whoever
asks for it; what is written becomes known at the calls that write and sync.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Recorder:
    """Writes down what happens below `folder`."""

    def __init__(self, record: str, folder: str) -> None:
        self._folder = Path(folder).absolute()
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._turn = threading.RLock()
        self._write, self._sync = os.write, os.fsync

    def install(self) -> None:
        """From now on. The hook stays for the life of the process."""
        datasync = os.fdatasync
        os.write = self._writing  # type: ignore[assignment]
        os.fsync = lambda handle: self._syncing(handle, self._sync)
        os.fdatasync = lambda handle: self._syncing(handle, datasync)
        sys.addaudithook(self._hear)

    def _tell(self, kind: str, path: Path, **more: Any) -> None:
        line = json.dumps({"op": kind, "path": str(path.relative_to(self._folder)), **more})
        self._write(self._record, f"{line}\n".encode())

    def _below(self, path: Any) -> Path | None:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        found = Path(os.fsdecode(path)).absolute()
        return found if found.is_relative_to(self._folder) else None

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            self._opening(*args)
        elif event in {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink"}:
            with self._turn:
                self._naming(event.removeprefix("os."), args)

    def _opening(self, name: Any, _: Any, flags: int) -> None:
        path = None if isinstance(name, int) or not flags & WRITING else self._below(name)
        if path is not None:
            with self._turn:
                if not (path.exists() or path.is_symlink()):
                    self._tell("make", path)
                elif flags & os.O_TRUNC:
                    self._tell("data", path, data="")

    def _naming(self, kind: str, args: tuple[Any, ...]) -> None:
        path = self._below(args[0])
        if path is None or (kind == "mkdir") == (path.exists() or path.is_symlink()):
            return  # elsewhere; or it fails, and changes nothing
        if kind in {"rename", "link"}:
            if path.is_file():
                self._tell("data", path, data=read(path))
            self._tell(kind, path, to=str(Path(os.fsdecode(args[1])).absolute().relative_to(self._folder)))
        else:
            self._tell(kind, path)

    def _writing(self, handle: int, data: Any) -> int:
        with self._turn:
            count = self._write(handle, data)
            path = self._below(handle)
            if path is not None:
                self._tell("data", path, data=read(path))
            return count

    def _syncing(self, handle: int, sync: Any) -> None:
        with self._turn:
            path = self._below(handle)
            if path is not None and path.is_file():
                self._tell("data", path, data=read(path))
            sync(handle)
            if path is not None:
                self._tell("sync", path)


def read(path: Path) -> str:
    """A file as it is to be seen now."""
    return base64.b64encode(path.read_bytes()).decode()


if __name__ == "__main__":
    Recorder(sys.argv[1], sys.argv[2]).install()
    sys.argv = ["tpuops", *sys.argv[3:]]
    from tpuops.program import main

    sys.exit(main())
