"""What is typed on a machine, as data: argv tuples, and the one way they become a line. Runs nothing.

SSH carries one string that the login shell of the other side splits again, so each word is quoted here, once. No
script below is ever built from data: data are its positional parameters.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

_HERE = 'test -f "$HOME/.tpuops/agent-$0.pyz"'
_RUN = 'exec python3 -I -S "$HOME/.tpuops/agent-$0.pyz" "$@"'
# The content is compared with its hash before it gets its name: a transfer cut short leaves nothing behind.
_INSTALL = (
    'umask 077; mkdir -p "$HOME/.tpuops" && partial="$HOME/.tpuops/agent-$0.$$.partial" && cat > "$partial" && '
    'printf "%s  %s\\n" "$1" "$partial" | sha256sum -c >/dev/null && mv "$partial" "$HOME/.tpuops/agent-$0.pyz"'
)

# Descriptor 3 keeps the old standard error open: asyncssh takes the end of any of a program's pipes for its own end.
_ERRORS_IN = 'umask 077; exec "$@" 3>&2 2>"$0"'


def line(argv: Sequence[str]) -> bytes:
    """The command line that a POSIX shell splits into exactly these words.

    Raises `ValueError` for a word with a NUL, which no argv can hold.
    """
    if any("\0" in word for word in argv):
        raise ValueError("a word of a command holds a NUL")
    return os.fsencode(shlex.join(argv))


def agent_is_here(digest: str) -> tuple[str, ...]:
    """Ends with 0 where the agent of that digest is installed."""
    return ("sh", "-c", _HERE, digest)


def install_agent(digest: str, sha256: str) -> tuple[str, ...]:
    """Takes the agent's content on standard input; installs it where the content has that sha256 (64 hex digits)."""
    return ("sh", "-c", _INSTALL, digest, sha256)


def agent(digest: str, *words: str) -> tuple[str, ...]:
    """One command of the agent."""
    return ("sh", "-c", _RUN, digest, *words)


def with_errors_in(file: Path, argv: Sequence[str]) -> tuple[str, ...]:
    """Run here, on this side: the program with its standard error in a file, whose path is the fourth word."""
    return ("sh", "-c", _ERRORS_IN, str(file), *argv)
