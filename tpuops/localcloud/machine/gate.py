"""The gate before the machine's disk and network: lets system calls pass, late or not at all, as the cloud orders.

A seccomp filter hands every call that opens a file for writing, makes a folder, flushes a file or connects a socket
to a process of the gate's own, which lets it go on, holds it back, or answers that no space is left. So every program
of the machine meets the fault, those that run already too, without privileges and without a stand-in. It is a process
and no thread: a thread would need the interpreter's lock, which the caller may hold while it waits. It is the parent of
all others, orphans too: only what descends from it may it look into where Yama restricts that (ptrace_scope 1), and it
must, since a call names its path by an address.
IMITATED: what is written to a file that was open before the disk filled, or opened by openat2, still arrives.
Numbers are those of linux/seccomp.h, linux/audit.h, linux/prctl.h and the system call tables.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import heapq
import json
import os
import platform
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    "x86_64": {
        "open": 2, "connect": 42, "fsync": 74, "fdatasync": 75, "mkdir": 83, "creat": 85, "openat": 257, "mkdirat": 258,
        "openat2": 437,
    },
    "aarch64": {"mkdirat": 34, "openat": 56, "fsync": 82, "fdatasync": 83, "connect": 203, "openat2": 437},
}  # fmt: skip
_SET_CHILD_SUBREAPER = 36
_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 8, 32
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON = 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_LOAD, _IF_EQUAL, _IF_ANY, _RETURN = 0x20, 0x15, 0x45, 0x06
_FLAGS_OF = {"open": 1, "openat": 2}
_PATH_OF = {"open": 0, "creat": 0, "openat": 1, "mkdir": 0, "mkdirat": 1}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NO_DISK = ("/dev/", "/proc/", "/run/")
_LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class Gate:
    """The line to the keeper. `version` is 1 where the gate stands, 0 where this kernel lets none be built."""

    version: int = 0
    keeper: int = 0
    line: socket.socket | None = None

    def rule(self, name: str, value: bool | float) -> None:
        """Have a rule (`full`, `disk_delay_s` or `network_delay_s`) hold from now on. OSError without a gate."""
        if self.line is None:
            raise OSError("this kernel lets no gate be built before disk and network (seccomp user notification)")
        self.line.sendall(json.dumps([name, value]).encode())
        self.line.recv(1)


def build() -> Gate:
    """Put the gate up for this process, which has one thread yet, and all that it starts from now on."""
    machine = platform.machine()
    if machine not in _SECCOMP:
        return Gate()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = os.fork()  # before the filter: the keeper must never wait for itself
    if program:
        _live(machine, theirs, program)
    theirs.close()
    listener = _install(machine)
    if listener < 0:
        ours.close()
        return Gate()
    socket.send_fds(ours, [b"x"], [listener])
    os.close(listener)
    return Gate(1, os.getppid(), ours)


def _live(machine: str, line: socket.socket, program: int) -> NoReturn:
    """The keeper's life: it holds nothing but its line and the listener, buries orphans, and ends with the program."""
    code = 1
    try:
        own = os.dup2(line.fileno(), 3)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(nothing, number)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        socket_ = socket.socket(fileno=own)
        _, handed, _, _ = socket.recv_fds(socket_, 1, 1)
        if handed:
            _Keeper(machine, socket_, handed[0]).keep(program, _deaths())
        code = _outlive(program)
    finally:
        os._exit(code)


def _deaths() -> int:
    """A descriptor that can be read once children have died."""
    told, tells = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    return told


def _outlive(program: int) -> int:
    """Bury whoever dies until the program has; its exit code, as a shell tells it."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _bury_orphans(program: int) -> None:
    """Wait for everybody who has died but the program."""
    while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid != program:
        os.waitpid(dead.si_pid, 0)


def _install(machine: str) -> int:
    """The filter in force, and the descriptor its notices come from; -1 where the kernel refuses."""
    program = _filter(machine)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = int(libc.syscall(_SECCOMP[machine], _MODE_FILTER, flags, header))
        if listener >= 0:
            return listener
    return -1


def _filter(machine: str) -> bytes:
    """The filter as a program for the kernel: other architectures' calls and harmless ones pass at once."""
    steps: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 1, 0, _AUDIT_ARCH[machine])]
    steps += [(_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for name, number in _CALLS[machine].items():
        if name in _FLAGS_OF:
            flags = [(_LOAD, 0, 0, 16 + 8 * _FLAGS_OF[name]), (_IF_ANY, 0, 1, _WRITING), (_RETURN, 0, 0, _NOTIFY)]
            steps += [(_IF_EQUAL, 0, len(flags) + 1, number), *flags, (_RETURN, 0, 0, _ALLOW)]
        else:
            steps += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    return b"".join(struct.pack("=HBBI", *step) for step in [*steps, (_RETURN, 0, 0, _ALLOW)])


class _Keeper:
    """Answers for every call that comes to the gate."""

    def __init__(self, machine: str, line: socket.socket, listener: int) -> None:
        self._names = {number: name for name, number in _CALLS[machine].items()}
        self._line = line
        self._listener = listener
        self._rules: dict[str, Any] = {"full": False, "disk_delay_s": 0.0, "network_delay_s": 0.0}
        self._held: list[tuple[float, int, int]] = []

    def keep(self, program: int, deaths: int) -> None:
        poll = select.poll()
        for each in (self._line.fileno(), self._listener, deaths):
            poll.register(each, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(self._wait_ms()):
                if descriptor == self._listener:
                    self._notice()
                elif descriptor == deaths:
                    os.read(deaths, 4096)
                    _bury_orphans(program)
                elif not self._told():
                    return
            while self._held and self._held[0][0] <= time.monotonic():
                _, id, refused = heapq.heappop(self._held)
                self._answer(id, refused)

    def _wait_ms(self) -> float | None:
        return max(0.0, (self._held[0][0] - time.monotonic()) * 1000) + 1 if self._held else None

    def _told(self) -> bool:
        """Take in a rule; False where there is nobody left to give any."""
        words = self._line.recv(4096)
        if not words:
            return False
        name, value = json.loads(words)
        self._rules[name] = value
        self._line.send(b"k")
        return True

    def _notice(self) -> None:
        buffer = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer)
        except OSError as failure:
            if failure.errno not in (errno.EINTR, errno.ENOENT):  # ENOENT: the caller was killed while we looked
                raise
            return
        notice = _NOTICE.unpack(buffer)
        delay_s, refused = self._verdict(notice[1], self._names[notice[3]], notice[6:])
        if delay_s:
            heapq.heappush(self._held, (time.monotonic() + delay_s, notice[0], refused))
        else:
            self._answer(notice[0], refused)

    def _verdict(self, pid: int, name: str, arguments: tuple[int, ...]) -> tuple[float, int]:
        """How long the call waits, and the error it ends in (0: it goes on)."""
        if name == "connect":
            return self._rules["network_delay_s"], 0
        if not (self._rules["full"] or self._rules["disk_delay_s"]):
            return 0.0, 0
        if name in _PATH_OF and not _on_disk(pid, arguments[_PATH_OF[name]]):
            return 0.0, 0
        return self._rules["disk_delay_s"], errno.ENOSPC if self._rules["full"] and name in _PATH_OF else 0

    def _answer(self, id: int, refused: int) -> None:
        words = _ANSWER.pack(id, 0, -refused, 0 if refused else _GO_ON)
        with contextlib.suppress(OSError):  # the caller was killed meanwhile
            fcntl.ioctl(self._listener, _SEND, words)


def _on_disk(pid: int, address: int) -> bool:
    """Whether the path that the caller names lies on the machine's disk; devices and /run do not."""
    path = _path(pid, address)
    return not path.startswith(_NO_DISK)


def _path(pid: int, address: int) -> str:
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            words = memory.read(min(_LONGEST_PATH, 4096 - address % 4096)) or b""
            if b"\0" not in words:
                words += memory.read(_LONGEST_PATH) or b""
    except (OSError, ValueError, OverflowError):
        return "/proc/"  # unreadable: what cannot be judged passes
    return os.fsdecode(words.partition(b"\0")[0])
