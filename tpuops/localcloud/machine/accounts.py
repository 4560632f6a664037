"""Who may log in: metadata `ssh-keys` turned into users, homes and keys, as Google's guest agent does.

Lines are `user:type base64 comment`, with `google-ssh {json}` in the comment for keys that expire (guest-agent,
facts/google-cloud.md 3.4). Every user of a machine is the same identity to the kernel: the sandbox knows only one.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .os_login import OsLogin

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_TRUE = {"true", "y", "yes", "1"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key that opens one account until `expires` (never, where None)."""

    user: str
    public: str
    expires: datetime | None = None


def keys_of(metadata: Mapping[str, str]) -> tuple[Key, ...]:
    """Every well-formed key in the metadata; lines the guest agent could not read are passed over as it does.

    OS Login switches metadata keys off (facts 3.4.3).
    """
    if metadata.get("enable-oslogin", "").strip().lower() in _TRUE:
        return ()
    text = "\n".join(metadata.get(name, "") for name in ("sshKeys", "ssh-keys"))
    return tuple(_keys(text.splitlines()))


def _keys(lines: list[str]) -> Iterator[Key]:
    for line in lines:
        user, _, rest = line.strip().partition(":")
        words = rest.split(None, 2)
        if _USER.fullmatch(user) and len(words) >= 2:
            try:
                yield Key(user, f"{words[0]} {words[1]}", _expiry(words[2] if len(words) > 2 else ""))
            except ValueError:
                continue


def _expiry(comment: str) -> datetime | None:
    """The moment after which the key is void; ValueError where the comment promises one and cannot be read."""
    if not comment.startswith("google-ssh"):
        return None
    stated = json.loads(comment.removeprefix("google-ssh"))
    expires = datetime.fromisoformat(str(stated["expireOn"]) if "expireOn" in stated else "")
    return expires if expires.tzinfo else expires.replace(tzinfo=UTC)


def home_of(user: str) -> str:
    """The user's home folder inside the machine."""
    return "/root" if user == "root" else f"/home/{user}"


class Accounts:
    """The keys in force now, and the homes of their owners. `root` is a folder so that tests may choose.

    `metadata` is where the metadata server is, which knows OS Login; empty: nobody asks it.
    """

    def __init__(self, root: Path = Path("/"), metadata: str = "") -> None:
        self._root = root
        self._os_login = OsLogin(metadata) if metadata else None
        self._keys: tuple[Key, ...] = ()

    def replace(self, keys: tuple[Key, ...]) -> None:
        """Put these keys in force and give every owner a home; homes of owners that went stay."""
        self._keys = keys
        users = sorted({key.user for key in keys} | self._homes())
        for user in users:
            (self._root / home_of(user).lstrip("/")).mkdir(parents=True, exist_ok=True)
        self._write_passwd(users)

    async def admits(self, user: str, public: str, now: datetime) -> bool:
        """Whether that key opens the account: by the metadata, or by OS Login where the machine uses it."""
        if public in self.keys(user, now):
            return True
        if self._os_login is None or not _USER.fullmatch(user):
            return False
        if not await asyncio.to_thread(self._os_login.admits, user, public):
            return False
        (self._root / home_of(user).lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.replace(self._keys)
        return True

    def keys(self, user: str, now: datetime) -> tuple[str, ...]:
        """Public keys (`type base64`) that open the account at `now`."""
        return tuple(k.public for k in self._keys if k.user == user and (k.expires is None or now < k.expires))

    def _homes(self) -> set[str]:
        homes = self._root / "home"
        return {entry.name for entry in homes.iterdir() if _USER.fullmatch(entry.name)} if homes.is_dir() else set()

    def _write_passwd(self, users: list[str]) -> None:
        lines = ["root:x:0:0:root:/root:/bin/bash"]
        lines += [f"{user}:x:0:0::{home_of(user)}:/bin/bash" for user in users if user != "root"]
        lines.append("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin")
        etc = self._root / "etc"
        etc.mkdir(exist_ok=True)
        (etc / "passwd").write_text("\n".join(lines) + "\n")
        members = ",".join(user for user in users if user != "root")
        (etc / "group").write_text(f"root:x:0:\ngoogle-sudoers:x:0:{members}\ntty:x:5:\nnogroup:x:65534:\n")
