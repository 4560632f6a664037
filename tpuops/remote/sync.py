"""What of a source tree goes to a machine, and how it travels: a list, a digest, a tar stream. Writes nothing.

The digest is a sha256 over one JSON line for each file in the order of their paths; `templates/worker/agent/tree.py`
computes it again from what arrives.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tpuops.errors import EnvironmentFileError

_ALWAYS_LEFT_OUT = frozenset({".git", "__pycache__", ".venv"})
_PIECE = 1 << 18
LARGE_BYTES = 10 << 20
"""A program's own files are smaller; what is larger is data, a checkpoint or a leftover that nobody meant to send."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or link: path relative to the source with `/`, permission bits, the link's target or None."""

    path: str
    mode: int
    size: int
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What is sent: the digest of all of it, how much, and the files of `LARGE_BYTES` or more, largest first."""

    digest: str
    files: int
    size: int
    large: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Revision:
    """What git says of a source tree: its commit, and how many paths differ from it; empty where it says nothing."""

    commit: str = ""
    changed: int = 0


def survey(source: Path) -> Survey:
    """Look at everything that would be sent. Raises as `entries`."""
    found = entries(source)
    large = sorted((entry for entry in found if entry.size >= LARGE_BYTES), key=lambda entry: (-entry.size, entry.path))
    return Survey(_digest(source, found), len(found), sum(entry.size for entry in found), tuple(large))


def revision(source: Path) -> Revision:
    """The commit that `source` is of; none where git does not know the tree, or nothing was ever committed."""
    if not _git_names(source):
        return Revision()
    said = _git(source, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--", ".").split("\0")
    commit = next((line.removeprefix("# branch.oid ") for line in said if line.startswith("# branch.oid ")), "")
    if not commit or not commit.isalnum():  # `(initial)`
        return Revision()
    return Revision(commit, sum(1 for line in said if line[:2] in {"1 ", "2 ", "u ", "? "}))


def entries(source: Path) -> tuple[Entry, ...]:
    """What is sent of `source`, in the order of the paths.

    Inside a git work tree: what git tracks or would (its ignore rules hold); elsewhere everything. Never `.git`,
    `__pycache__` or `.venv`; sockets, pipes and devices are left out. Raises `EnvironmentFileError` where `source` is
    no folder, or a link leads out of it.
    """
    if not source.is_dir():
        raise EnvironmentFileError(f"train.source is not a folder: {source}")
    root = source.resolve()
    names = _git_names(root) or list(_walk(root))
    found = (_entry(root, name) for name in sorted(set(names)) if not _ALWAYS_LEFT_OUT.intersection(name.split("/")))
    return tuple(entry for entry in found if entry is not None)


def digest(source: Path) -> str:
    """What names the content of `source`: 64 hex digits, the same for the same paths, bits and bytes."""
    return _digest(source, entries(source))


def _digest(source: Path, found: Iterable[Entry]) -> str:
    total = hashlib.sha256()
    for entry in found:
        kind, value = ("f", _sha256(source / entry.path)) if entry.link is None else ("l", entry.link)
        total.update(json.dumps([entry.path, entry.mode, kind, value]).encode() + b"\n")
    return total.hexdigest()


def tar(source: Path) -> Iterator[bytes]:
    """The tar stream of `source`, in pieces; equal for equal trees (no times, no owners).

    Raises `EnvironmentFileError` where a file cannot be read.
    """
    try:
        for entry in entries(source):
            yield from _member(source, entry)
    except OSError as error:
        raise EnvironmentFileError(f"the source cannot be read: {error}") from error
    yield bytes(2 * tarfile.BLOCKSIZE)


def _member(source: Path, entry: Entry) -> Iterator[bytes]:
    info = tarfile.TarInfo(entry.path)
    info.mode, info.size = entry.mode, entry.size
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    yield from _content(source / entry.path, entry.size)


def _content(path: Path, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes and the padding: a file that changed meanwhile is found by its digest, on the other side."""
    left = size
    if left:
        with path.open("rb") as file:
            while left:
                piece = file.read(min(_PIECE, left)) or bytes(min(_PIECE, left))
                left -= len(piece)
                yield piece
    yield bytes(-size % tarfile.BLOCKSIZE)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _entry(root: Path, name: str) -> Entry | None:
    path = root / name
    if path.is_symlink():
        if not Path(os.path.realpath(path)).is_relative_to(root):  # which a link to itself does not upset
            raise EnvironmentFileError(
                f"{path} leads out of the source tree", hint="copy what it leads to, or let .gitignore name it"
            )
        return Entry(name, 0, 0, str(path.readlink()))
    if not path.is_file():
        return None  # deleted since git listed it, or a socket, pipe or device
    found = path.stat()
    return Entry(name, found.st_mode & 0o777, found.st_size)


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in _ALWAYS_LEFT_OUT]
        for name in names + links:
            yield (here / name).relative_to(root).as_posix()


def _git_names(root: Path) -> list[str]:
    """git's own list; empty where `root` is in no work tree, is ignored as a whole, or git is not installed."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names: list[str] = []
    for raw in listed.split("\0"):
        name = raw.rstrip("/")
        inner = root / name
        if (
            name and inner.is_dir() and not inner.is_symlink()
        ):  # a repository inside this one: git lists only its folder
            names += [f"{name}/{deeper}" for deeper in _git_names(inner) or _walk(inner)]
        elif name:
            names.append(name)
    return names


def _git(root: Path, *words: str) -> str:
    """What git prints; nothing where it fails or is not installed. It reads only, whatever the user's variables say."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""
