"""Who holds the lease: the object's words, written and read; judged by what they say and what this host knows. Never
asks the cloud."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tpuops.clock import Clock
from tpuops.switch import GRACE_S, TTL_S, Terms

USUAL = Terms()
LONGEST_TTL_S = 600.0
FORMAT = 1
"""Of the lease object's form. One of a later format was written by a later version, whose rules we do not know."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lease, where, since when and doing what. `started` tells a process from a later one of its pid.

    `progress` is how far it was at the last renewal: JSON values for `status`, never asked by those who want the lease.
    It counts for `ttl_s` to its holder and whoever wants it, for `grace_s` to the reapers. `keeper` (`switch.Keeper`)
    stands there without a `token` where the run's own machine, `host`, renews it: nobody acts, whoever wants it has it.
    With a `token` the machine takes it back from a holder who was silent for `grace_s`.
    """

    token: str
    user: str
    host: str
    pid: int
    started: str
    since: str
    doing: str
    progress: Mapping[str, Any] = field(default_factory=dict)
    ttl_s: float = TTL_S
    grace_s: float = GRACE_S
    format: int = FORMAT
    keeper: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        """Whether a machine renews it for its run, and no controller acts."""
        return bool(self.keeper) and not self.token

    def words(self) -> str:
        """The holder as people say it."""
        if self.is_kept:
            return f"{self.host} itself, since {self.since}, for the run that {self.user} left there"
        return f"{self.user} on {self.host} (process {self.pid}), since {self.since}, for `{self.doing}`"

    def data(self) -> bytes:
        """The lease object's bytes."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def myself(user: str, doing: str, clock: Clock, terms: Terms = USUAL) -> Holder:
    """This process as a holder, on these terms."""
    since = clock.now().isoformat(timespec="seconds")
    me = Holder(secrets.token_hex(8), user, here(), os.getpid(), started(os.getpid()), since, doing)
    return replace(me, ttl_s=terms.ttl_s, grace_s=terms.grace_s)


def here() -> str:
    """This host, as holders name it."""
    return socket.gethostname()


def started(pid: int) -> str:
    """What tells this process from a later one of the same pid: its start in kernel ticks and the boot, "" if gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return _started_without_proc(pid)
    state, ticks = stat.rpartition(")")[2].split()[0], stat.rpartition(")")[2].split()[19]
    return "" if state == "Z" else f"{boot}/{ticks}"


def _started_without_proc(pid: int) -> str:
    """Outside Linux only the pid itself can be asked for."""
    if Path("/proc/self").exists():
        return ""
    with suppress(OSError):
        os.kill(pid, 0)
        return "alive"
    return ""


def keeping(me: Holder, there: Holder) -> Holder:
    """Me, with the machine that has it back after me, if `there` names one, and what is known of its run."""
    return replace(me, keeper=there.keeper, progress=there.progress if there.keeper else {})


def kept_by_machine(holder: Holder) -> Holder:
    """The lease as the machine has it that `holder.keeper` names."""
    user, host, since = (str(holder.keeper.get(key, "unknown")) for key in ("user", "machine", "since"))
    return replace(holder, token="", user=user, host=host, pid=0, started="", since=since, doing="run")


def parse(data: bytes) -> Holder:
    """Read a holder, of this version or of another: what only that one knows is passed over.

    Unreadable bytes are a holder nobody knows, who expires like any other.
    """
    try:
        told = json.loads(data)
        holder = Holder(**{each.name: told[each.name] for each in fields(Holder) if each.name in told})
        return holder if _is_sound(holder) else NOBODY
    except (ValueError, TypeError):
        return NOBODY


def _is_sound(holder: Holder) -> bool:
    """Whether the numbers are numbers: they decide when somebody else may act."""
    numbers = (holder.ttl_s, holder.grace_s, holder.format, holder.pid)
    return (
        isinstance(holder.keeper, dict)
        and all(isinstance(each, int | float) for each in numbers)
        and 0 < holder.ttl_s <= LONGEST_TTL_S
    )


NOBODY = Holder("", "unknown", "unknown", 0, "", "unknown", "unknown")


def is_dead(holder: Holder, host: str) -> bool:
    """Whether the holder surely ended: it ran on this host and its process is not there any more."""
    return holder.host == host and holder.started != started(holder.pid)
