"""Small files that nobody else may read, whole or as they were before, also after a power cut."""

from __future__ import annotations

import os
import secrets
from datetime import datetime
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Put `text` in place of the file, with mode 0600; a link is replaced, not followed. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)  # else a power cut may leave the name with nothing behind it
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    settle(path.parent)


def settle(folder: Path) -> None:
    """Have the names in a folder on the disk: what was made, renamed or removed there outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def moved_aside(path: Path, now: datetime) -> Path | None:
    """Give the file the name `old-NAME-TIME`, so that its own is free; None where there is none."""
    if not path.is_symlink() and not path.exists():
        return None
    aside = path.with_name(f"old-{path.name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
    path.rename(aside)
    return aside
