"""SSH keys of this machine: the environment's own, and gcloud's, which tpuops never uses and touches only when broken.

gcloud's pair is moved aside only where a half is missing, the halves differ or others may read it, and gcloud's own ssh
has just failed. A key with a passphrase is whole: it is never moved.
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

from tpuops.doctor.finding import Check, Finding, Fix, broken, ok, warning
from tpuops.doctor.patient import Patient
from tpuops.errors import AccessError, TpuopsError
from tpuops.remote import local
from tpuops.remote.files import moved_aside
from tpuops.remote.keys import NAME, own_key
from tpuops.remote.pairs import Pair, pair
from tpuops.stages import entry

GCLOUD_S = 100.0
"""gcloud tries ten times, five seconds apart (google-cloud.md 6.4)."""


def own_path(patient: Patient) -> Path:
    """Where the environment's own key is, or will be."""
    return patient.folder / NAME


async def own(patient: Patient) -> Finding:
    """The environment's own key can be used, and nobody else can read it."""
    path = own_path(patient)
    if not path.is_symlink() and not path.exists():
        return ok("the environment's own key is made when it is first needed")
    try:
        own_key(patient.folder)
    except AccessError as error:
        open_to_others = path.is_file() and not path.is_symlink() and bool(path.lstat().st_mode & 0o077)
        return broken(
            "ssh-key-open" if open_to_others else "ssh-key-broken",
            error.message,
            hint=f"{patient.typed('doctor', '--fix')} moves it to old-{NAME}-... and makes a new one",
            fix=Fix(f"move {path} aside and make a new key", _renewed(patient)),
        )
    return ok("the environment's own key is whole, and nobody else can read it")


def _renewed(patient: Patient) -> Callable[[], Awaitable[None]]:
    async def renew() -> None:
        moved_aside(own_path(patient), patient.clock.now())
        own_key(patient.folder)

    return renew


def gcloud_path() -> Path:
    """gcloud's own private key (google-cloud.md 6.1)."""
    return Path.home() / ".ssh" / "google_compute_engine"


async def gclouds(patient: Patient) -> Finding:
    """gcloud's key pair is whole. tpuops does without it; `gcloud ... ssh` does not."""
    path = gcloud_path()
    found = pair(path)
    if found is Pair.ABSENT:
        return ok("gcloud has made no key of its own yet")
    if found is Pair.WHOLE:
        return ok("gcloud's own key pair is whole")
    if found is Pair.LOCKED:
        return warning(
            "gcloud-key-passphrase",
            "gcloud's own key has a passphrase, which `gcloud ... ssh` asks for each time",
            evidence=[str(path)],
            hint=f"`ssh-add {path}` unlocks it for this session; tpuops does not use it",
        )
    return warning(
        f"gcloud-key-{found.value}",
        f"gcloud's own key pair is broken: {found.words}; tpuops does without it, `gcloud ... ssh` does not",
        evidence=[f"{each}: {_seen(each)}" for each in (path, path.with_name(f"{path.name}.pub"))],
        hint="`ssh-keygen -t rsa -f ~/.ssh/google_compute_engine` makes a new pair once the old one is moved aside",
        fix=Fix(
            "try gcloud's own ssh, and if it fails move its keys to old-... and make new ones", _replaced(patient, path)
        ),
    )


def _seen(path: Path) -> str:
    try:
        return stat.filemode(path.lstat().st_mode)
    except FileNotFoundError:
        return "missing"


def _replaced(patient: Patient, path: Path) -> Callable[[], Awaitable[None]]:
    async def replace() -> None:
        said = await _gclouds_ssh(patient)
        if pair(path).is_whole:  # gcloud has mended it itself
            return
        if not said:
            raise TpuopsError("gcloud's own ssh works with this pair, so it stays")
        for each in (path, path.with_name(f"{path.name}.pub")):
            moved_aside(each, patient.clock.now())
        made = await local.ran("ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(path))
        if made.code:
            raise TpuopsError(f"ssh-keygen made no key: {made.err.strip()}")

    return replace


async def _gclouds_ssh(patient: Patient) -> str:
    """What gcloud's own ssh fails with on our TPU; empty where it works.

    Raises `TpuopsError` where there is nothing to try it on.
    """
    node = await patient.cloud.node(patient.desired.node.place, patient.desired.node.name)
    if node is None or not node.is_ready or local.installed("gcloud") is None:
        lacking = "gcloud is not installed" if local.installed("gcloud") is None else "no TPU stands"
        raise TpuopsError(
            f"{lacking}, so gcloud's own ssh cannot be tried, and its keys stay",
            hint=f"{patient.typed('up')}, then {patient.typed('doctor', '--fix')}",
        )
    words = [
        "compute",
        "tpus",
        "tpu-vm",
        "ssh",
        node.name,
        "--command=true",
        "--quiet",
        "--strict-host-key-checking=no",
    ]
    words += [f"--project={node.place.project}", f"--zone={node.place.zone}"]
    if patient.place.ssh_port != 22:
        words.append(f"--ssh-flag=-p {patient.place.ssh_port}")
    way = entry.gcloud(patient.environment, patient.stage, patient.folder / "ssh")
    try:
        done = await local.ran(*way, "gcloud", *words, timeout_s=GCLOUD_S)
    except TpuopsError as error:
        return error.message
    return "" if done.code == 0 else done.err.strip() or f"exit code {done.code}"


CHECKS = (
    Check("ssh-key", own),
    Check("gcloud-keys", gclouds),
)
