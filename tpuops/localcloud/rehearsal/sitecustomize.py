"""The device stand-in of a rehearsal machine. IMITATED: there is no accelerator here that could fail.

Python imports this module at every start. It costs nothing until a program imports a device framework; then one thread
looks for the cloud's fault file, and when it is there the process dies as a real one does when its TPU goes away: the
framework's own words on standard error, exit code 1. So it does at once where another process has libtpu's lock file
locked. Where the cloud wants this very process to hang, the thread takes the interpreter's lock and keeps it, as a call
into libtpu that never returns. It never raises into the program, and it hides no sitecustomize that lies behind it.
"""

# pathlib and importlib.util would cost every process ten times what this file does
# ruff: noqa: PTH100, PTH107, PTH110, PTH120, PTH123, PLC0415
from __future__ import annotations

import os
import sys
from _thread import LockType, allocate_lock, start_new_thread
from time import sleep

_FAULT = os.environ.get("TPUOPS_REHEARSAL_FAULT", "/run/tpu/fault")
_HANG = os.environ.get("TPUOPS_REHEARSAL_HANG", "/run/tpu/hang")
_LOCK = os.environ.get("TPUOPS_REHEARSAL_LOCK", "/tmp/libtpu_lockfile")  # noqa: S108 - libtpu's own fixed path
_NOTED = "/var/log/rehearsal-device.log"
_FRAMEWORKS = frozenset(("jax", "jaxlib", "libtpu", "torch_xla", "tensorflow"))
_POLL_S = 0.02
_IMPORT_FAILED_S = 2.0


class _DeviceWatch:
    """Stands first on sys.meta_path, finds nothing, and notices the import of a device framework."""

    def __init__(self) -> None:
        self.watching = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Never finds: the import goes on as if we were not there."""
        if name in _FRAMEWORKS and not self.watching:
            if os.path.exists(_LOCK):
                _refuse_second()
            self.begin()

    def begin(self) -> None:
        """Start the one thread; a process that cannot start one goes unwatched."""
        self.watching = True
        try:
            start_new_thread(self.watch, ())
        except RuntimeError:
            self.watching = False

    def after_fork(self) -> None:
        """Threads do not survive a fork."""
        if self.watching:
            self.begin()

    def watch(self) -> None:
        """Look until the fault comes; stop where the import came to nothing (the framework is not installed)."""
        idle = 0.0
        while True:
            if _FRAMEWORKS.isdisjoint(sys.modules):
                idle += _POLL_S
                if idle > _IMPORT_FAILED_S:
                    self.watching = False
                    return
            elif os.path.exists(_FAULT):
                with open(_FAULT, "rb") as fault:
                    _die(fault.read())
            elif os.path.exists(_HANG):
                _hang()
            sleep(_POLL_S)


def _refuse_second() -> None:
    """End the process with libtpu's words where another one has the accelerator."""
    import fcntl
    import struct

    try:
        with open(_LOCK, "rb") as file:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, holder = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return
    if kind != fcntl.F_UNLCK:
        busy = "The TPU is already in use by process with pid %d. Not attempting to load libtpu.so in this process."
        _die(b"ABORTED: " + (busy % holder).encode())


def _hang() -> None:
    """Where the order is for this process: keep the interpreter's lock for ever, with every signal left to others."""
    import ctypes
    import signal

    with open(_HANG, "rb") as order:
        if order.read() != b"%d" % os.getpid():
            return
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    pause = ctypes.PyDLL(None).pause
    os.remove(_HANG)
    pause()


def _die(words: bytes) -> None:
    """End the process with the framework's words, its last. What it had buffered is written out first if that takes no
    waiting."""
    flushed = allocate_lock()
    flushed.acquire()
    start_new_thread(_flush, (flushed,))
    flushed.acquire(timeout=0.2)
    try:
        errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # other threads run until the very end
            os.dup2(nowhere, stream)
        os.write(errors, words if words.endswith(b"\n") else words + b"\n")
        with open(_NOTED, "a") as noted:
            noted.write(f"imitated device fault ended process {os.getpid()}: {sys.argv[:1]}\n")
    finally:
        os._exit(1)


def _flush(done: LockType) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        done.release()


def _next_sitecustomize() -> None:
    """Run the sitecustomize this one stands before, as Python would have done without us."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path or ".") != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_device = _DeviceWatch()
sys.meta_path.insert(0, _device)
os.register_at_fork(after_in_child=_device.after_fork)
_next_sitecustomize()
