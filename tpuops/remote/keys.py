"""The SSH key of an environment: made once, kept in its state folder, used for nothing else. It stays here."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from tpuops.errors import AccessError
from tpuops.remote.files import settle

NAME = "id_ed25519"


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key pair: the private half's file (mode 0600) and the public half as one `ssh-ed25519 ... tpuops` line."""

    path: Path
    public_line: str


def own_key(folder: Path) -> OwnKey:
    """The key in `folder`, made when it is not there; two that come at once get the same one.

    Raises `AccessError` where the file is a link, is no key, or may be read by others, and where none can be made.
    """
    path = folder / NAME
    if not path.is_symlink() and not path.exists():
        try:
            _make(path)
        except OSError as error:
            raise AccessError(
                f"no key can be made in {folder}: {error.strerror}",
                hint="make room there or mend its permissions, or set TPUOPS_STATE to a folder that can be written",
            ) from error
    return OwnKey(path, f"{_public(path)} tpuops")


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
            file.flush()
            os.fsync(file.fileno())
        # A link is made only where the name is free, so the key has its name only when it is whole.
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink()
    settle(path.parent)  # before any machine is told this key


def _public(path: Path) -> str:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.getuid():
        raise AccessError(
            f"{path} is not a private key of this user's alone", hint=f"chmod 600 {path}, or move it aside"
        )
    try:
        key = asyncssh.read_private_key(path)
    except (asyncssh.KeyImportError, OSError) as error:
        raise AccessError(f"{path} cannot be read as a key: {error}", hint=f"move {path} aside") from error
    words: list[str] = key.export_public_key().decode("ascii").split()
    return " ".join(words[:2])
