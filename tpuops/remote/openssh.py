"""OpenSSH for a person's own session: the files it reads, generated, and this process becoming it.

Only the key of the environment, only the host keys that the API told, nothing of the user's own configuration.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Never

from tpuops.errors import AccessError, TpuopsError
from tpuops.remote import commands
from tpuops.remote.files import write_private
from tpuops.remote.known import Known
from tpuops.remote.port import Host

_OPTIONS = (
    "IdentitiesOnly yes",
    "IdentityAgent none",
    "PreferredAuthentications publickey",
    "StrictHostKeyChecking yes",
    "GlobalKnownHostsFile /dev/null",
    "UpdateHostKeys no",
    "ForwardAgent no",
    "ServerAliveInterval 15",
    "ServerAliveCountMax 3",
    "ConnectTimeout 15",
    "LogLevel ERROR",
)


def files(host: Host, key: Path, folder: Path) -> Path:
    """Write `<name>.config` and `<name>.known_hosts` (mode 0600) into `folder`; the configuration's path.

    Raises `AccessError` where a path cannot be written in a configuration, `HostKeyChanged` as `Known`.
    """
    config, known = folder / f"{host.name}.config", folder / f"{host.name}.known_hosts"
    keys = Known(folder).trusted(host)
    lines = [
        f"Host {host.name}",
        f"HostName {host.address}",
        f"HostKeyAlias {host.name}",
        f"Port {host.port}",
        f"User {host.user}",
        f"IdentityFile {_quoted(key)}",
        f"UserKnownHostsFile {_quoted(known)}",
        *_OPTIONS,
    ]
    if host.proxy:
        # OpenSSH gives this to a shell, after its own tokens: each word is quoted, and a % is doubled.
        lines.append(f"ProxyCommand {_plain(commands.line(host.proxy).decode()).replace('%', '%%')}")
    write_private(known, "".join(f"{host.name} {key_line}\n" for key_line in keys))
    write_private(config, "\n".join(lines) + "\n")
    return config


def argv(config: Path, host: Host, command: Sequence[str] = (), *, terminal: bool) -> tuple[str, ...]:
    """OpenSSH's command line; `command` are the words the login shell of the other side reads, joined by blanks."""
    options = ("-t",) if terminal else ()
    return ("ssh", "-F", str(config), *options, "--", host.name, *command)


def become(words: Sequence[str]) -> Never:
    """Turn this process into `words`, so that its terminal, its signals and its exit code are this command's.

    Raises `TpuopsError` where the program is not installed.
    """
    program = shutil.which(words[0])
    if program is None:
        raise TpuopsError(f"{words[0]} is not installed here", hint="apt-get install openssh-client")
    # Python ignores these, and a program begun by us would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, list(words))  # noqa: S606 - the argv is built above; there is no shell


def _plain(words: str) -> str:
    """Words that stay one line of a configuration."""
    if len(words.splitlines()) != 1:
        raise AccessError(f"{words!r} cannot be written for OpenSSH", hint="set TPUOPS_STATE to a plainer folder")
    return words


def _quoted(path: Path) -> str:
    text = str(path.absolute())
    if any(letter in text for letter in '"\n\r\\'):
        raise AccessError(f"{text!r} cannot be named to OpenSSH", hint="set TPUOPS_STATE to a plainer folder")
    # OpenSSH expands %-tokens, and ${...} from the environment.
    if "${" in text:
        raise AccessError(f"{text!r} cannot be named to OpenSSH", hint="set TPUOPS_STATE to a plainer folder")
    return '"' + text.replace("%", "%%") + '"'
