"""Is a pair of key files whole? Reads them, and changes nothing."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import asyncssh


class Pair(StrEnum):
    """What two files `KEY` and `KEY.pub` are."""

    ABSENT = "absent"
    WHOLE = "whole"
    LOCKED = "passphrase"
    HALF = "half-missing"
    APART = "halves-differ"
    OPEN = "wrong-mode"
    RUBBISH = "unreadable"

    @property
    def is_whole(self) -> bool:
        """Whether ssh can use it, be it with a passphrase."""
        return self in {Pair.WHOLE, Pair.LOCKED}

    @property
    def words(self) -> str:
        """What is wrong, as people say it."""
        return _WORDS.get(self, str(self))


_WORDS = {
    Pair.HALF: "one half is missing",
    Pair.APART: "its two halves belong to different keys",
    Pair.OPEN: "others may read the private half, and ssh refuses such a key",
    Pair.RUBBISH: "a file is no key",
}


def pair(private: Path) -> Pair:
    """The state of `private` and the public half beside it."""
    public = private.with_name(f"{private.name}.pub")
    there = [path for path in (private, public) if path.exists()]
    if len(there) < 2:
        return Pair.HALF if there else Pair.ABSENT
    found = private.stat()
    if found.st_mode & 0o077 and found.st_uid == os.getuid():
        return Pair.OPEN
    try:
        shown = asyncssh.read_public_key(public).public_data
    except (asyncssh.KeyImportError, OSError, ValueError):
        return Pair.RUBBISH
    try:
        return Pair.WHOLE if asyncssh.read_private_key(private).public_data == shown else Pair.APART
    except asyncssh.KeyEncryptionError:
        return Pair.LOCKED
    except asyncssh.KeyImportError as error:
        # An encrypted key without its passphrase is told by the text alone in some formats.
        return Pair.LOCKED if "passphrase" in str(error).lower() else Pair.RUBBISH
    except OSError:
        return Pair.RUBBISH
