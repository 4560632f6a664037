"""Login keys in metadata: the lines of `ssh-keys` as Google's guest agent reads them (google-cloud.md 3.4.1). Pure.

One line is `user:type base64 comment`; a comment `google-ssh {json without blanks}` says when the key expires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

KEYS = "ssh-keys"
OS_LOGIN = "enable-oslogin"
_MARK = "google-ssh"
_FORMAT = "%Y-%m-%dT%H:%M:%S+0000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key that opens one account until `expires`, or for ever. `public` is `type base64`."""

    user: str
    public: str
    expires: datetime | None = None

    @property
    def line(self) -> str:
        """The entry as metadata carries it."""
        if self.expires is None:
            return f"{self.user}:{self.public} {self.user}"
        stamp = self.expires.astimezone(UTC).strftime(_FORMAT)
        said = json.dumps({"userName": self.user, "expireOn": stamp}, separators=(",", ":"))
        return f"{self.user}:{self.public} {_MARK} {said}"

    def opens(self, at: datetime) -> bool:
        """Whether it is in force at that time."""
        return self.expires is None or at < self.expires


def public_of(line: str) -> str:
    """`type base64` of an OpenSSH public line with or without a comment."""
    return " ".join(line.split()[:2])


def entries(text: str) -> tuple[Entry, ...]:
    """Every entry that can be read; the guest agent passes over the others too."""
    return tuple(found for line in text.splitlines() if (found := entry(line)) is not None)


def entry(line: str) -> Entry | None:
    """One line as an entry, None where it is none; a promised end that cannot be read makes it none."""
    user, colon, rest = line.strip().partition(":")
    words = rest.split(None, 2)
    if not colon or not user or len(words) < 2:
        return None
    try:
        return Entry(user, f"{words[0]} {words[1]}", _end(words[2] if len(words) > 2 else ""))
    except (ValueError, KeyError, TypeError):
        return None


def _end(comment: str) -> datetime | None:
    if not comment.startswith(_MARK):
        return None
    found = datetime.fromisoformat(json.loads(comment.removeprefix(_MARK))["expireOn"])
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def of_key(text: str, public: str) -> tuple[Entry, ...]:
    """The entries of one key, whoever they let in."""
    return tuple(found for found in entries(text) if found.public == public)


def added(text: str, new: Entry) -> str:
    """The lines with `new` in place of what the same key had for the same user; every other line stays as it is."""
    return "\n".join((*_others(text, new), new.line))


def _others(text: str, new: Entry) -> Iterator[str]:
    for line in text.splitlines():
        found = entry(line)
        # A line of this very key that cannot be read would stay for ever: it is replaced too.
        mine = new.public in line if found is None else (found.public, found.user) == (new.public, new.user)
        if line.strip() and not mine:
            yield line


def is_os_login(text: str) -> bool:
    """Whether a value of `enable-oslogin` switches OS Login on, and with it the keys in metadata off (3.4.3)."""
    return text.strip().lower() in {"true", "y", "yes", "1"}
