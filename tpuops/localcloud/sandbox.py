"""The wall around a machine, as data: the bubblewrap argument vector, and the check that it can be built here.

The root is an allow-list: `/usr`, the interpreter's folders and what `Binds` names; nothing else of the host exists
inside. The process gets new user, pid, ipc and uts namespaces, no capability, no set-uid gain, a read-only /proc (as
root on the host, a writable /proc/sys would be a way out) and dies with its parent. The network is the host's unless
closed: `machine/confine.py` closes what that leaves open. This module starts nothing but the trial run of
`check_sandbox`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_INSTALLERS = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "zypper": "zypper install bubblewrap",
    "apk": "apk add bubblewrap",
}
_USER_NAMESPACES = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_CPU_COUNT = ("/sys/devices/system/cpu", "/sys/devices/system/node")


class SandboxMissing(Exception):
    """No sandbox can be built here, so no machine may start. `hint` is what to type."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of the host that a machine sees at `target`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One machine's wall: its name for itself, what it sees (later binds lie over earlier ones), its first program.

    `closed` gives it a network of its own with nothing in it but loopback.
    """

    hostname: str
    binds: Sequence[Bind]
    environment: Mapping[str, str]
    command: Sequence[str]
    folder: str = "/"
    closed: bool = False


def wall(sandbox: Sandbox, info_fd: int) -> tuple[str, ...]:
    """bubblewrap's options for the wall; process ids are written to `info_fd` as JSON."""
    words = ["--unshare-user", "--uid", "0", "--gid", "0"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", sandbox.hostname, "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    words += ["--unshare-net"] if sandbox.closed else []
    words += ["--info-fd", str(info_fd), *_skeleton()]
    for bind in sandbox.binds:
        words += ["--bind" if bind.writable else "--ro-bind", str(bind.source), bind.target]
    words += ["--remount-ro", "/proc", "--remount-ro", "/"]
    for name, value in sorted(sandbox.environment.items()):
        words += ["--setenv", name, value]
    return (*words, "--chdir", sandbox.folder)


def argv(sandbox: Sandbox, wall_fd: int, bwrap: str = "bwrap") -> tuple[str, ...]:
    """The command that runs the sandbox's program behind the wall, whose options it reads from `wall_fd`.

    The options do not stand in the command line because the first process inside shows it: they name host folders.
    """
    return (bwrap, "--args", str(wall_fd), "--", *sandbox.command)


def wall_file(options: Sequence[str]) -> int:
    """A file descriptor from which bubblewrap can read the options; the caller closes it."""
    descriptor = os.memfd_create("wall")
    os.write(descriptor, b"".join(word.encode() + b"\0" for word in options))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _skeleton() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_FOLDERS:
        words += _system_folder(Path("/") / name)
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run"]
    for folder in _CPU_COUNT:
        words += ["--ro-bind-try", folder, folder]
    return words


def _system_folder(folder: Path) -> list[str]:
    if folder.is_symlink():
        return ["--symlink", str(folder.readlink()), str(folder)]
    return ["--ro-bind", str(folder), str(folder)] if folder.is_dir() else []


def exposes(source: Path, secret: Path) -> bool:
    """Whether binding `source` would show `secret` inside the machine."""
    shown, hidden = source.resolve(), secret.resolve()
    return hidden == shown or shown in hidden.parents


def check_sandbox() -> str:
    """The path of a bubblewrap that works here; raises `SandboxMissing` with the command that makes it so."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxMissing(
            "machines of the embedded cloud run in a sandbox, and bubblewrap (bwrap) is not installed", _install_hint()
        )
    trial = Sandbox("trial", (), {}, ("/usr/bin/env", "true"))
    options = wall_file(wall(trial, 2))
    try:
        tried = subprocess.run(
            argv(trial, options, bwrap), capture_output=True, timeout=10, check=False, text=True, pass_fds=(options,)
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise SandboxMissing(f"bubblewrap does not run here: {failure}", _refusal_hint()) from failure
    finally:
        os.close(options)
    if tried.returncode:
        last = [line for line in tried.stderr.splitlines() if line.startswith("bwrap:")][-1:]
        raise SandboxMissing(f"bubblewrap cannot build a sandbox here: {''.join(last)}".rstrip(": "), _refusal_hint())
    return bwrap


def _install_hint() -> str:
    for tool, command in _INSTALLERS.items():
        if shutil.which(tool):
            return command
    return _INSTALLERS["apt-get"]


def _refusal_hint() -> str:
    try:
        restricted = _USER_NAMESPACES.read_text().strip() == "1"
    except OSError:
        restricted = False
    if restricted:
        return "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return "sysctl user.max_user_namespaces=15000; in a container, start it with --security-opt seccomp=unconfined"
