"""Whether a run can start here: looks at the machine, its disk, its clock, its bucket and its way to worker 0.

One question, one answer, and nothing is judged: whoever asked has all workers' answers. What it writes, on the disks
and in the bucket, is small and removed at once. The network is asked while the rest is looked at. Several people may
look at once.
"""

import concurrent.futures
import email.utils
import json
import os
import socket
import sys
import tempfile
import time

import bucket
import devices
import meeting
import places
import state
import versions

FOLDERS = ("~", "/tmp", "/dev/shm")  # noqa: S108 - what training writes to without being told
TRIES, TIMEOUT_S = 3, 10


def preflight():
    """The answer to the question on standard input: {"bucket", "object", "port", "here", "first", "others", "wait_s",
    "meeting", "versions"}; what is missing there is not asked."""
    asked = json.load(sys.stdin)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        stored = pool.submit(_bucket, asked.get("bucket"), asked.get("object"))
        linked = pool.submit(meeting.met, asked)
        packages = pool.submit(_packages) if asked.get("versions") else None
        now = state.now()
        answer = {
            "run": {"run_id": now.get("run_id", ""), "alive": bool(now.get("alive")), "pid": now.get("pid", 0)},
            "source": now.get("source", ""),
            "rehearsal": os.environ.get("TPUOPS_REHEARSAL") == "1",
            "device_files": len(devices.files()),
            **_devices(),
            "disks": [disk for disk in map(_disk, FOLDERS) if disk],
        }
        answer.update(stored.result())
        answer["link"] = linked.result()
        answer["versions"] = packages.result() if packages else {}
    return answer


def _devices():
    held, hidden = devices.everybody()
    paths = {}
    for pid, path in held:
        paths.setdefault(pid, []).append(path)
    rows = [{**devices.described(pid), "paths": paths[pid]} for pid in sorted(paths)]
    return {"holders": rows, "hidden": hidden, "lock": devices.lock_file()}


def _disk(folder):
    """Free bytes and file nodes of the disk below a folder; None where there is none."""
    path = os.path.expanduser(folder)
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return {
        "folder": folder,
        "free": found.f_bavail * found.f_frsize,
        "size": found.f_blocks * found.f_frsize,
        "nodes_free": found.f_favail if found.f_files else -1,
        "problem": _unwritable(path),
    }


def _unwritable(path):
    """Why nothing can be written there, empty where it can: a quota or a read-only disk shows in no count."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".tpuops-", dir=path) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _bucket(name, path):
    """Write, read and remove an object by the machine's own identity; and how far its clock is from the bucket's."""
    if not name:
        return {"bucket": None, "clock_s": None}
    target = bucket.Bucket(name, TRIES, TIMEOUT_S)
    path = "%s-%d" % (path, os.getpid())  # several people may look at once, and each removes what is its own
    said = {}
    data = ("%s %d\n" % (socket.gethostname(), time.time())).encode()
    said["write"] = _said(lambda: target.put(path, data))
    if not said["write"]:
        said["read"] = _said(lambda: _same(target.get(path), data))
        said["remove"] = _said(lambda: target.remove(path))
    if any(said.values()):
        said.update(target.identity())
    return {"bucket": said, "clock_s": _ahead(target.heard)}


def _said(act):
    """What went wrong, empty where nothing did."""
    try:
        act()
    except bucket.Failed as error:
        return str(error)
    return ""


def _same(found, data):
    if found != data:
        raise bucket.Failed("it has other bytes than were written a moment ago")


def _ahead(heard):
    """Seconds by which this clock is ahead of the service's (its answers tell whole seconds); None where none came."""
    if heard is None:
        return None
    date, at = heard
    try:
        ahead = at - email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None
    return round(ahead - 0.5, 1)  # the middle of the second that was told


def _packages():
    """By the interpreter and environment of the run this machine had last."""
    run_id, attempt = places.current_run()
    spec = places.read_json(os.path.join(places.attempt_folder(run_id, attempt), "spec.json")) if run_id else None
    if spec is None:
        return versions.found(["python3"], "/", dict(os.environ))
    cwd = places.source_folder(spec["source"]) if spec["source"] else "/"
    return versions.found(spec["command"], cwd, {**os.environ, **spec["env"]})
