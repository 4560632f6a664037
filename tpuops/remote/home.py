"""Files brought home: names from a bucket become files below one folder, and never anywhere else.

A name may come from a program nobody trusts: every folder on the way is opened without following links, and an
existing file is never written over. A file has its name only when it is whole.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_PART = 255


class Unsafe(ValueError):
    """The name would leave the folder, or something that is no folder or file stands in its way."""


class Home:
    """One folder to bring files to; made where it is not there. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Home:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def md5(self, name: str) -> str | None:
        """The base64 md5 of the file of that name, None where there is none.

        Raises `Unsafe` for a name that is not a file's below the folder.
        """
        with self._inside(name, make=False) as (folder, last):
            if folder is None:
                return None
            try:
                handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise Unsafe(f"{name}: {error.strerror}") from error
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise Unsafe(f"{name}: something that is no file is there")
                return digest(file)

    @contextmanager
    def new(self, name: str, md5: str) -> Iterator[BinaryIO]:
        """A file to write; it gets its name at the end if its content has that base64 md5 and the name is free.

        Raises `Unsafe` as `md5`, `ValueError` for other content, `FileExistsError` where somebody was faster.
        """
        with self._inside(name, make=True) as (folder, last):
            assert folder is not None
            partial = f".tpuops-{secrets.token_hex(8)}.partial"
            mode = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(partial, mode, 0o666, dir_fd=folder), "w+b") as file:
                try:
                    yield file
                    file.flush()
                    file.seek(0)
                    if digest(file) != md5:
                        raise ValueError(f"{name}: what arrived is not what the bucket has")
                    os.fsync(file.fileno())
                    os.link(partial, last, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                finally:
                    os.unlink(partial, dir_fd=folder)

    @contextmanager
    def _inside(self, name: str, *, make: bool) -> Iterator[tuple[int | None, str]]:
        """The folder of `name`, opened part by part, and the name's last part; None where a folder is missing."""
        *folders, last = parts(name)
        handle = os.dup(self._handle)
        try:
            for part in folders:
                deeper = _entered(handle, part, name, make=make)
                os.close(handle)
                handle = -1
                if deeper is None:
                    yield None, last
                    return
                handle = deeper
            yield handle, last
        finally:
            if handle >= 0:
                os.close(handle)


def _entered(handle: int, part: str, name: str, *, make: bool) -> int | None:
    try:
        if make:
            with suppress(FileExistsError):  # it is entered below, if it is a folder
                os.mkdir(part, dir_fd=handle)
        return os.open(part, _FOLDER, dir_fd=handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unsafe(f"{name}: {part} is not a folder to go through ({error.strerror})") from error


def parts(name: str) -> tuple[str, ...]:
    """A name's parts. Raises `Unsafe` where it is absolute, empty, or goes upwards."""
    split = name.split("/")
    bad = any(part in {"", ".", ".."} or "\0" in part or len(os.fsencode(part)) > _LONGEST_PART for part in split)
    if bad or PurePosixPath(name).is_absolute():
        raise Unsafe(f"{name[:200]!r} is no name for a file below a folder")
    return tuple(split)


def digest(file: BinaryIO) -> str:
    """The base64 md5 of what is left to read, as Cloud Storage writes it."""
    found = hashlib.md5(usedforsecurity=False)
    while piece := file.read(1 << 20):
        found.update(piece)
    return base64.b64encode(found.digest()).decode()
