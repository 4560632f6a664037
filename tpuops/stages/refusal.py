"""Why a machine does not let us in: what was seen becomes one typed error with evidence and a hint. Pure.

SSH alone cannot tell a firewall from a machine that is gone, nor a key from a user's name. The API's word on the
machine and the keys in its metadata, held against where the connection ended, can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tpuops.errors import AccessError, TpuopsError, Unreachable
from tpuops.facts.entries import Entry
from tpuops.remote.port import Barrier

YOUNG = timedelta(minutes=5)
IAP_ADDRESSES = "35.235.240.0/20"  # google-cloud.md 6.7
_FORBIDDEN = re.compile(r"Handshake status 40[0134]|missing permissions|not authorized", re.I)
_NO_BACKEND = re.compile(r"\b4003\b|failed to connect to (backend|port)", re.I)
_NO_LOGIN = re.compile(r"gcloud auth login|do not currently have an active account|Reauthentication|credentials", re.I)
_NO_GCLOUD = re.compile(r"gcloud: (command )?not found|No such file or directory.*gcloud", re.I)


class MachineDown(Unreachable):
    """The API says that the machine does not run."""


class SshFiltered(Unreachable):
    """Nobody answers at the address: a firewall, or no way into the network."""


class SshNotListening(Unreachable):
    """The machine answers, its sshd does not listen."""


class SshBrokenOff(Unreachable):
    """Connections are taken and not carried through."""


class SshKeyPending(Unreachable):
    """Our key is in the metadata, in time, and not in force on the machine."""


class TunnelBroken(Unreachable):
    """Identity-Aware Proxy carried the connection nowhere."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen when a connection failed.

    `state` is the API's word for the machine, empty where there is none; `runs` whether it means a running machine.
    `entries` are those of our key in the machine's metadata, `os_login` whether that switches metadata's keys off;
    `login` and `way` are what the file says. `made` is when the machine was created, None where nobody said.
    """

    name: str
    address: str
    user: str
    barrier: Barrier
    said: tuple[str, ...]
    waited_s: float
    state: str
    runs: bool
    made: datetime | None
    now: datetime
    network: str = "default"
    project: str = ""
    way: str = "external"
    login: str = "metadata"
    entries: tuple[Entry, ...] = ()
    os_login: bool = False
    up: str = "tpuops up"

    @property
    def is_young(self) -> bool:
        """Whether it may still be starting."""
        return self.made is not None and self.now - self.made < YOUNG

    @property
    def evidence(self) -> tuple[str, ...]:
        """What was seen, as lines."""
        age = "" if self.made is None else f", made {_ago(self.now - self.made)} ago"
        shown = f"the API says {self.state or 'there is no such machine'}{age}; tried for {self.waited_s:.0f} s"
        return (*self.said, shown)


def told_apart(sight: Sight) -> TpuopsError:
    """The one error that fits."""
    if not sight.runs:
        what = f"is {sight.state}" if sight.state else "is not there any more"
        return MachineDown(f"{sight.name} {what}", evidence=sight.evidence, hint=f"{sight.up} brings it back")
    return _BY_BARRIER[sight.barrier](sight)


def _nobody_answers(sight: Sight) -> TpuopsError:
    if sight.way == "internal":
        hint = (
            f"tpuops must run inside the network {sight.network}, or be joined to it; `ssh.reach: iap` needs neither,"
            f" and a firewall rule there must let tcp:22 in"
        )
    else:
        hint = (
            f"let tcp:22 in: gcloud compute firewall-rules create tpuops-ssh --project={sight.project}"
            f" --network={sight.network} --allow=tcp:22 --source-ranges=YOUR_ADDRESS/32"
        )
    return SshFiltered(
        f"nobody answers at {sight.address} for {sight.name}: a firewall, or no way there",
        evidence=sight.evidence,
        hint=_patience(sight) + hint,
    )


def _not_listening(sight: Sight) -> TpuopsError:
    hint = "its sshd does not run: stop and start the machine, or make it anew with `tpuops down` and `tpuops up`"
    return SshNotListening(
        f"{sight.name} answers, and nobody listens for SSH there",
        evidence=sight.evidence,
        hint=(_patience(sight) or "") + hint,
    )


def _broken_off(sight: Sight) -> TpuopsError:
    return SshBrokenOff(
        f"{sight.name} takes connections and breaks them off",
        evidence=sight.evidence,
        hint=_patience(sight) + "its memory or disk may be used up, or something between cuts SSH; try again, then"
        " stop and start it",
    )


def _key_refused(sight: Sight) -> TpuopsError:
    if sight.login == "os-login":
        return _os_login_refused(sight)
    if sight.os_login:
        return AccessError(
            f"{sight.name} has OS Login switched on, which puts keys in metadata out of force",
            evidence=sight.evidence,
            hint="write `ssh: {login: os-login}` into the environment file; the project's metadata may say so for all",
            kind="ssh-os-login",
        )
    return _of_entries(sight)


def _of_entries(sight: Sight) -> TpuopsError:
    """By what the machine's metadata says of our key."""
    ours = [each for each in sight.entries if each.user == sight.user]
    if any(each.opens(sight.now) for each in ours):
        return SshKeyPending(
            f"{sight.name} does not take our key yet, though its metadata lists it",
            evidence=sight.evidence,
            hint=_patience(sight) + "a key takes up to a minute or two; if it lasts, the machine's guest agent hangs:"
            " stop and start it",
        )
    if ours:
        ended = max(each.expires for each in ours if each.expires is not None)
        what, kind = f"our key for {sight.user} ran out at {ended:%Y-%m-%d %H:%M} UTC", "ssh-key-expired"
    elif sight.entries:
        others = ", ".join(sorted({each.user for each in sight.entries}))
        what, kind = f"our key is listed for the user {others}, not for {sight.user}", "ssh-user"
    else:
        what, kind = "our key is not listed there", "ssh-key-unknown"
    return AccessError(
        f"{sight.name} lets {sight.user} not in: {what}",
        evidence=sight.evidence,
        hint="`tpuops ssh`, `logs`, `attach`, `train` and `run` add this machine's key",
        kind=kind,
    )


def _os_login_refused(sight: Sight) -> TpuopsError:
    return AccessError(
        f"{sight.name} lets {sight.user} not in: OS Login did not grant it",
        evidence=sight.evidence,
        hint=f"grant roles/compute.osAdminLogin on project {sight.project} and roles/iam.serviceAccountUser on the"
        " machine's service account; a new grant takes some minutes",
        kind="ssh-os-login-refused",
    )


def _proxy(sight: Sight) -> TpuopsError:
    """What gcloud said on its way through Identity-Aware Proxy."""
    text = "\n".join(sight.said)
    if _NO_GCLOUD.search(text):
        return AccessError(
            "gcloud is not installed here, and `ssh.reach: iap` goes through it",
            evidence=sight.evidence,
            hint="install the Google Cloud SDK, https://cloud.google.com/sdk/docs/install",
            kind="gcloud-missing",
        )
    if _NO_BACKEND.search(text):
        return TunnelBroken(
            f"Identity-Aware Proxy does not get through to {sight.name}",
            evidence=sight.evidence,
            hint=_patience(sight) + "let it in: gcloud compute firewall-rules create tpuops-iap"
            f" --project={sight.project} --network={sight.network} --allow=tcp:22 --source-ranges={IAP_ADDRESSES}",
        )
    if _FORBIDDEN.search(text):
        return AccessError(
            f"Identity-Aware Proxy does not let gcloud's account through to {sight.name}",
            evidence=sight.evidence,
            hint=f"grant roles/iap.tunnelResourceAccessor on {sight.project} to what `gcloud config get account`"
            " says; gcloud's login is not the one of `application-default`",
            kind="iap-forbidden",
        )
    if _NO_LOGIN.search(text):
        return AccessError(
            "gcloud has no login of its own, and `ssh.reach: iap` goes through it",
            evidence=sight.evidence,
            hint="gcloud auth login",
            kind="gcloud-no-login",
        )
    return TunnelBroken(
        f"the way through Identity-Aware Proxy to {sight.name} broke off",
        evidence=sight.evidence,
        hint=_patience(sight) + "try again; `gcloud compute start-iap-tunnel` says more with --verbosity=debug",
    )


def _patience(sight: Sight) -> str:
    return "it was made just now and may need a minute; if it lasts: " if sight.is_young else ""


def _ago(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {word}"
    return f"{seconds} s"


_BY_BARRIER: Mapping[Barrier, Callable[[Sight], TpuopsError]] = {
    Barrier.SILENT: _nobody_answers,
    Barrier.NO_ROUTE: _nobody_answers,
    Barrier.CLOSED: _not_listening,
    Barrier.BROKEN: _broken_off,
    Barrier.KEY: _key_refused,
    Barrier.PROXY: _proxy,
}
