"""What a machine is asked before a run, and what it says: plain values, and how the agent's document becomes them.

The machine judges nothing; whoever has every worker's answer does. Reading raises what a wrong shape raises (KeyError,
TypeError, ValueError, AttributeError).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """What to look at beside the machine itself.

    `object` is written to `bucket`, read and removed. With a `port`, worker `first` waits there for `others` to call;
    addresses are those inside the slice, and `meeting` tells several such looks apart. `versions`: also tell the
    packages of the run that was there last.
    """

    worker: int
    bucket: str
    object: str
    port: int = 0
    here: str = ""
    first: str = ""
    others: int = 0
    wait_s: float = 10.0
    meeting: str = ""
    versions: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds the accelerator; `run` names the run of ours that started it, empty for a stranger's."""

    pid: int
    command: str
    user: str
    since: datetime | None
    run: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LockFile:
    """libtpu's lock file: its owner, and whether the run's user could take it."""

    user: str
    usable: bool


@dataclass(frozen=True, slots=True)
class Space:
    """A disk by a folder on it: bytes free and in all, free file nodes (-1: it has no such count).

    `problem`: why nothing could be written there.
    """

    folder: str
    free: int
    size: int
    nodes_free: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """What went wrong in the bucket, by what was tried; `account` and `scopes` are told where anything did."""

    troubles: Mapping[str, str]
    account: str = ""
    scopes: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """The way between workers: what went wrong, and at worker 0 which workers called.

    `shared`: somebody else's look had the port for as long as this one waited.
    """

    problem: str
    heard: tuple[int, ...]
    port_taken: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Readiness:
    """One worker's answer. `clock_s`: seconds its clock is ahead of the bucket's; None where nobody told.

    `alive` says whether run `run_id` lives there now. `hidden`: some processes could not be looked into.
    """

    run_id: str = ""
    alive: bool = False
    source: str = ""
    rehearsal: bool = False
    device_files: int = 0
    holders: tuple[Holder, ...] = ()
    hidden: bool = False
    lock: LockFile | None = None
    disks: tuple[Space, ...] = ()
    stored: Stored = Stored({})
    clock_s: float | None = None
    link: Link | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


_TAKEN = {98, 48}
"""EADDRINUSE of Linux, where workers are, and of macOS."""


def read(document: Mapping[str, Any]) -> Readiness:
    """A `Readiness` from the agent's document."""
    lock, bucket, link = document["lock"], document["bucket"], document["link"]
    ahead = document["clock_s"]
    return Readiness(
        run_id=str(document["run"]["run_id"]),
        alive=bool(document["run"]["alive"]),
        source=str(document["source"]),
        rehearsal=bool(document["rehearsal"]),
        device_files=int(document["device_files"]),
        holders=tuple(_holder(each) for each in document["holders"]),
        hidden=bool(document["hidden"]),
        lock=None if lock is None else LockFile(str(lock["user"]), bool(lock["usable"])),
        disks=tuple(_space(each) for each in document["disks"]),
        stored=Stored({}) if bucket is None else _stored(bucket),
        clock_s=None if ahead is None else float(ahead),
        link=None if link is None else _link(link),
        versions={str(name): str(version) for name, version in document["versions"].items()},
    )


def _holder(row: Mapping[str, Any]) -> Holder:
    since = float(row["since"])
    began = datetime.fromtimestamp(since, UTC) if since else None
    paths = tuple(str(path) for path in row["paths"])
    return Holder(int(row["pid"]), str(row["command"]), str(row["user"]), began, str(row["run"]), paths)


def _space(row: Mapping[str, Any]) -> Space:
    return Space(str(row["folder"]), int(row["free"]), int(row["size"]), int(row["nodes_free"]), str(row["problem"]))


def _stored(row: Mapping[str, Any]) -> Stored:
    troubles = {key: str(row[key]) for key in ("write", "read", "remove") if row.get(key)}
    return Stored(troubles, str(row.get("account", "")), str(row.get("scopes", "")))


def _link(row: Mapping[str, Any]) -> Link:
    heard = tuple(int(each) for each in row["heard"])
    return Link(str(row["problem"]), heard, int(row["errno"]) in _TAKEN, bool(row["shared"]))
