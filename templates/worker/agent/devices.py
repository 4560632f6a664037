"""Who holds the accelerator, and making it free again. Ends only what an earlier run of ours left behind.

Device files: /dev/accel* up to v4, /dev/vfio/* from v5e on; libtpu's lock file is /tmp/libtpu_lockfile
(facts: SSH section, 6.9). libtpu holds a record lock on it for as long as its process lives (lockf), so that the kernel
tells the holder to everybody, and a file that nobody has locked is only in the way where another user owns it.
"""

import fcntl
import glob
import json
import os
import pwd
import struct
import subprocess

import places
import processes
import state

LOCK = "/tmp/libtpu_lockfile"  # noqa: S108 - libtpu's own fixed path
DEVICES = ("/dev/accel*", "/dev/vfio/[0-9]*")
PREFIXES = ("/dev/accel", "/dev/vfio/", LOCK)
FLOCK = "hhqqi"  # fcntl(2), struct flock: type, whence, start, length, process
WORDS, WORD_CHARS = 3, 60


def files():
    """The accelerator's device files."""
    return sorted(path for pattern in DEVICES for path in glob.glob(pattern))


def holders():
    """[(pid, path)] of device files held open and of the lock file locked, as far as this user may see."""
    return sorted(set(_open_files()[0] + [(pid, LOCK) for pid in _lockers()]))


def _open_files():
    """([(pid, path)], whether there are processes that this user may not look into)."""
    found, hidden = [], False
    for pid in processes.pids():
        folder = "/proc/%d/fd" % pid
        try:
            names = os.listdir(folder)
        except PermissionError:
            hidden = True
            continue
        except OSError:
            continue
        for name in names:
            try:
                path = os.readlink(os.path.join(folder, name))
            except OSError:
                continue
            if path.startswith(PREFIXES):
                found.append((pid, path))
    return found, hidden


def _lockers():
    """Who has the lock file locked, whoever owns the process (the kernel tells one; 0: one that cannot be seen)."""
    try:
        handle = os.open(LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    except OSError:
        return []
    finally:
        os.close(handle)
    return [] if kind == fcntl.F_UNLCK else [max(pid, 0)]


def everybody():
    """`holders`, with root's eyes where there are processes that this user may not look into and sudo asks nothing."""
    found, hidden = _open_files()
    if hidden and files():
        try:
            done = subprocess.run(
                ["sudo", "-n", *places.itself("holders")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, timeout=10, check=False,
            )  # fmt: skip
            found += [(int(pid), str(path)) for pid, path in json.loads(done.stdout or b"[]")]
            hidden = done.returncode != 0
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass
    return sorted(set(found + [(pid, LOCK) for pid in _lockers()])), hidden and bool(files())


def say_holders():
    """`holders` as one JSON line, for `everybody` to read."""
    print(json.dumps(holders()))


def described(pid):
    """Who a process is: its program (the first words: what follows may be secret), its user, since when, whose run."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read(4096).decode("utf-8", "replace").rstrip("\0").split("\0")
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        words, uid = [""], -1
    shown = " ".join(word[:WORD_CHARS] for word in words[:WORDS]) + (" ..." if len(words) > WORDS else "")
    return {"pid": pid, "command": shown, "user": _user(uid), "since": processes.began(pid), "run": _run_of(pid)}


def _user(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _run_of(pid):
    """The run that started it; empty where none did, or where this user may not see."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"TPUOPS_RUN_ID="):
                    return entry.partition(b"=")[2].decode("utf-8", "replace")
    except OSError:
        pass
    return ""


def lock_file():
    """The lock file: whose it is, since when, and whether this user could take it; None where there is none."""
    try:
        found = os.stat(LOCK)
    except OSError:
        return None
    usable = os.access(LOCK, os.R_OK | os.W_OK)
    return {"user": _user(found.st_uid), "since": found.st_mtime, "usable": usable}


def clear():
    """End holders that a run of ours started, and remove a lock file that nobody holds; what was done, and what not.

    The caller has made sure that no run lives.
    """
    stale = [pid for pid, _ in holders() if _run_of(pid)]
    left = (
        processes.end(lambda: [pid for pid in stale if processes.started(pid) and _run_of(pid)], 2.0) if stale else []
    )
    held = everybody()[0]
    removed = False
    if os.path.exists(LOCK) and not held:
        removed = _removed()
        if not removed:
            held.append((0, LOCK + " belongs to another user: sudo rm -f " + LOCK))
    return {"ended": sorted(set(stale) - set(left)), "lock_removed": removed, "held": held}


def _removed():
    """Remove the lock file, as root where it is another user's and sudo asks nothing; whether it is gone."""
    try:
        os.unlink(LOCK)
    except PermissionError:
        try:
            subprocess.run(
                ["sudo", "-n", "rm", "-f", LOCK], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=10, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
    except FileNotFoundError:
        pass
    return not os.path.exists(LOCK)


def clear_idle():
    """`clear`, refused while a run lives."""
    with places.locked():
        if state.now().get("alive"):
            raise places.Refused("busy", "a run lives here")
        return clear()
