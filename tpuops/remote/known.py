"""The host keys that each machine had when it was first met: a machine that changes them later is not trusted.

What the API tells is believed at the first meeting of a machine, by its identity (id and creation time). From then on
it may tell the same, or more, or fewer; another key of a kind that is known is refused, and further kinds are not
believed, since a program on the machine may publish what it likes. One file a machine's name, readable by nobody else.
With the files gone, the API alone is believed again: no command needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from tpuops.errors import AccessError
from tpuops.remote.files import write_private
from tpuops.remote.port import Host

CHANGED = "ssh-host-key-changed"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class HostKeyChanged(AccessError):
    """A machine, or somebody in its place, shows or is said to have another host key than before."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered below `folder`; one that does not `learn` only holds what it is told against that."""

    folder: Path
    learns: bool = True

    def trusted(self, host: Host) -> tuple[str, ...]:
        """The host keys to trust at this connection, and from now on.

        Raises `HostKeyChanged`, and `AccessError` where a line told by the API is not one key.
        """
        told = by_kind(host)
        before = self._before(host)
        if before is None:
            if self.learns:
                self._remember(host, told)
            return tuple(told.values())
        for kind in told.keys() & before.keys():
            if told[kind] != before[kind]:
                raise self._changed(host, before[kind], told[kind])
        trusted = tuple(told[kind] for kind in before if kind in told)
        if not trusted:
            raise self._changed(host, next(iter(before.values())), next(iter(told.values())))
        return trusted

    def file(self, name: str) -> Path:
        """Where a machine's keys are remembered."""
        if not _NAME.fullmatch(name):
            raise AccessError(f"{name!r} is no machine's name")
        return self.folder / f"{name}.host_keys"

    def forget(self, name: str) -> None:
        """Believe the API about this machine once more."""
        self.file(name).unlink(missing_ok=True)

    def _before(self, host: Host) -> Mapping[str, str] | None:
        """The keys of this very machine by their kind; None where it was not met, or only an earlier one was."""
        try:
            found = json.loads(self.file(host.name).read_text("utf-8"))
            keys = {str(kind): str(line) for kind, line in found["keys"].items()}
            return keys if found["machine"] == host.machine and keys else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _remember(self, host: Host, told: Mapping[str, str]) -> None:
        """A full or read-only disk here ends no run: the API told the keys, and tells them again the next time."""
        with suppress(OSError):
            text = json.dumps({"machine": host.machine, "keys": dict(told)}, indent=1)
            write_private(self.file(host.name), f"{text}\n")

    def _changed(self, host: Host, before: str, told: str) -> HostKeyChanged:
        return HostKeyChanged(
            f"{host.name} is the same machine as before, and is said to have another host key",
            evidence=[f"before: {fingerprint(before)}", f"now:    {fingerprint(told)}"],
            hint=f"a program on it may have published that key; if it was reimaged, rm {self.file(host.name)}",
            kind=CHANGED,
        )


def by_kind(host: Host) -> dict[str, str]:
    """The host keys that the API told, strictly read: one of each kind.

    Raises `AccessError` where there is none, or a line is not one key and nothing else.
    """
    keys: dict[str, str] = {}
    for line in host.host_keys:
        key = _read(host.name, line)
        kind = key.get_algorithm()
        if keys.setdefault(kind, line) != line:
            raise AccessError(f"{host.name}: two host keys of the kind {kind} are published", kind=CHANGED)
    if not keys:
        raise AccessError(f"{host.name}: no host key is known, and without one nobody is trusted")
    return keys


def imported(name: str, lines: Iterable[str]) -> list[asyncssh.SSHKey]:
    """The lines as keys."""
    return [_read(name, line) for line in lines]


def _read(name: str, line: str) -> asyncssh.SSHKey:
    try:
        words = line.split(" ")
        if len(line.splitlines()) != 1 or len(words) != 2:
            raise asyncssh.KeyImportError("not one line of two words")
        key = asyncssh.import_public_key(line)
        if key.export_public_key().decode().split()[:2] != words:
            raise asyncssh.KeyImportError("there is more in it than a key")
    except (asyncssh.KeyImportError, ValueError) as error:
        raise AccessError(f"{name}: not a host key: {line[:60]!r} ({error})", kind="ssh-host-key-malformed") from error
    return key


def fingerprint(line: str) -> str:
    """A key as people compare it: its kind, and SHA256:..."""
    return f"{line.split(maxsplit=1)[0]} {asyncssh.import_public_key(line).get_fingerprint()}"
