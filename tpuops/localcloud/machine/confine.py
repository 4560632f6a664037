"""What a machine's first process gives up before it starts anything: what namespaces leave open.

The network is shared with the host, so abstract Unix sockets of the host would answer; Landlock (Linux 6.12) closes
them, and with any of its file rights handled also forbids every mount. Older kernels lack that and say so in `Booted`.
Nothing here can be undone by the processes started later. Numbers are those of the kernel's own headers
(linux/landlock.h, linux/keyctl.h, linux/prctl.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import resource
import struct
from pathlib import Path

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_ABI_QUERY = 1
_MAKE_BLOCK_DEVICE = 1 << 11
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_ABI_WITH_SCOPES = 6
_JOIN_SESSION_KEYRING = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_SET_DUMPABLE, _SET_NAME = 4, 15
_MOST_PROCESSES = 16384  # the kernel does not hold the host's own root to it
_LARGEST_FILE = 64 << 30  # a log that runs away fills no common disk


def confine() -> int:
    """Give up what is not needed; call before any thread starts. Returns the Landlock version in force, 0 for none."""
    libc = ctypes.CDLL(None, use_errno=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NPROC, _MOST_PROCESSES)
    _lower(resource.RLIMIT_FSIZE, _LARGEST_FILE)
    _forget_keyring(libc)
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)  # nobody in the machine reads or steers the process that talks to the cloud
    _take_name(libc, b"sshd")
    return _landlock(libc)


def slim() -> None:
    """Give the memory that only the imports needed back to the host."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(AttributeError):  # a libc without it
        ctypes.CDLL(None).malloc_trim(0)


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    if hard == resource.RLIM_INFINITY or hard > value:
        resource.setrlimit(limit, (value, value))


def _take_name(libc: ctypes.CDLL, name: bytes) -> None:
    """Be listed as what we are to the machine's users: `pkill -f python` on a real machine spares its sshd too.

    The argument vector lies where proc_pid_stat(5) says (fields 48 and 49).
    """
    libc.prctl(_SET_NAME, name, 0, 0, 0)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        ctypes.memmove(start, name.ljust(end - start, b"\0"), end - start)


def _forget_keyring(libc: ctypes.CDLL) -> None:
    """A fresh, empty session keyring: the inherited one could be searched for the user's kernel keys."""
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        libc.syscall(number, _JOIN_SESSION_KEYRING, None)


def _landlock(libc: ctypes.CDLL) -> int:
    version = int(libc.syscall(_CREATE_RULESET, None, 0, _ABI_QUERY))
    if version < 1:
        return 0
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if version >= _ABI_WITH_SCOPES else 0
    # The kernel takes the short form from older callers, and refuses unknown non-zero tails: no scopes, no tail.
    rules = struct.pack("=QQQ", _MAKE_BLOCK_DEVICE, 0, scoped)[: 24 if scoped else 8]
    ruleset = int(libc.syscall(_CREATE_RULESET, rules, len(rules), 0))
    if ruleset < 0:
        return 0
    refused = int(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return 0 if refused else version
