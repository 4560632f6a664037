"""Who holds the accelerator, and making it free again. Ends only what an earlier run of ours left behind.

Device files: /dev/accel* up to v4, /dev/vfio/* from v5e on; libtpu's lock file is /tmp/libtpu_lockfile
(facts: SSH section, 6.9).
"""

import os

import places
import processes
import state

LOCK = "/tmp/libtpu_lockfile"  # noqa: S108 - libtpu's own fixed path
PREFIXES = ("/dev/accel", "/dev/vfio/", LOCK)


def holders():
    """[(pid, path)] of device files held open, as far as this user may see."""
    found = []
    for pid in processes.pids():
        folder = "/proc/%d/fd" % pid
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                path = os.readlink(os.path.join(folder, name))
            except OSError:
                continue
            if path.startswith(PREFIXES):
                found.append((pid, path))
    return sorted(set(found))


def _ours(pid):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return any(entry.startswith(b"TPUOPS_RUN_ID=") for entry in file.read().split(b"\0"))
    except OSError:
        return False


def clear():
    """End holders that a run of ours started, and remove a lock file that nobody holds; what was done, and what not.

    The caller has made sure that no run lives.
    """
    stale = [pid for pid, _ in holders() if _ours(pid)]
    left = processes.end(lambda: [pid for pid in stale if processes.started(pid) and _ours(pid)], 2.0) if stale else []
    held = holders()
    removed = False
    if os.path.exists(LOCK) and not held:
        try:
            os.unlink(LOCK)
            removed = True
        except PermissionError:
            held.append((0, LOCK + " belongs to another user: sudo rm -f " + LOCK))
    return {"ended": sorted(set(stale) - set(left)), "lock_removed": removed, "held": held}


def clear_idle():
    """`clear`, refused while a run lives."""
    with places.locked():
        if state.now().get("alive"):
            raise places.Refused("busy", "a run lives here")
        return clear()
