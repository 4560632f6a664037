"""Small texts that explain a failure. Each is bounded in time and size; what could not be read says so."""

import base64
import glob
import http.client
import json
import os
import re
import subprocess
import urllib.request

import devices
import places
import processes
import stacks

TAIL_BYTES = 32768
LOGS = 8
TOLD_S = 2
STAMP = re.compile(rb"\[ *([0-9]+\.[0-9]+)\]")


def _output(*argv):
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ("could not be read: %s\n" % error).encode()
    said = b"" if done.returncode == 0 else b"ended with code %d\n" % done.returncode
    return said + done.stdout[-TAIL_BYTES:]


def _kernel():
    plain = _output("dmesg")
    return plain if not plain.startswith((b"ended", b"could not")) else plain + _output("sudo", "-n", "dmesg")


def _since_start(kernel):
    """What the kernel said since the current attempt began. None where that is not known, and in a rehearsal, where
    the kernel is the whole computer's and speaks of others."""
    began = _began_s()
    if began is None or os.environ.get("TPUOPS_REHEARSAL") == "1" or kernel.startswith((b"ended", b"could not")):
        return None
    stamped = [(STAMP.match(line), line) for line in kernel.splitlines(True)]
    return b"".join(line for stamp, line in stamped if stamp and float(stamp.group(1)) >= began)


def _began_s():
    """Seconds from the machine's boot to the start of the current attempt's process; None where there is none."""
    run_id, attempt = places.current_run()
    noted = run_id and places.read_json(os.path.join(places.attempt_folder(run_id, attempt), "pid.json"))
    if not noted or noted["training"]["boot"] != processes.boot_id():
        return None
    return noted["training"]["start"] / os.sysconf("SC_CLK_TCK")


def _machine():
    """{"device_files", "preempted", "maintenance-event"}: what there is to train on, and whether the machine is to go.

    A rehearsal's machine has no device files of its own.
    """
    found = {key: _told("instance/" + key) for key in ("preempted", "maintenance-event")}
    if os.environ.get("TPUOPS_REHEARSAL") != "1":
        found["device_files"] = len(devices.files())
    return found


def _told(path):
    """What the metadata server says; empty where it does not."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    request = urllib.request.Request(
        "http://%s/computeMetadata/v1/%s" % (host, path), headers={"Metadata-Flavor": "Google"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TOLD_S) as reply:
            return reply.read(64).decode("ascii", "replace").strip()
    except (OSError, ValueError, http.client.HTTPException):
        return ""


def _held():
    lines = ["%d %s" % holder for holder in devices.holders()] or ["nothing that this user can see"]
    try:
        found = os.stat(devices.LOCK)
        lines.append("%s: owner %d, changed %d" % (devices.LOCK, found.st_uid, found.st_mtime))
    except OSError as error:
        lines.append("%s: %s" % (devices.LOCK, error.strerror))
    return "\n".join(lines).encode() + b"\n"


def _libtpu():
    folder = os.environ.get("TPU_LOG_DIR", "/tmp/tpu_logs")  # noqa: S108 - libtpu's own default, training facts F1
    files = [path for path in glob.glob(os.path.join(folder, "*")) if os.path.isfile(path)]
    files.sort(key=os.path.getmtime, reverse=True)
    if not files:
        yield "libtpu.txt", ("no logs in %s\n" % folder).encode()
    for path in files[:LOGS]:
        try:
            yield "libtpu/" + os.path.basename(path), places.tail(path, TAIL_BYTES)
        except OSError as error:
            yield "libtpu/" + os.path.basename(path), ("could not be read: %s\n" % error).encode()


def evidence():
    """{name: base64 of the bytes}."""
    home = os.path.expanduser("~")
    kernel = _kernel()
    since = _since_start(kernel)
    texts = {
        "kernel.txt": kernel,
        "machine.json": json.dumps(_machine()).encode() + b"\n",
        "devices.txt": _held(),
        "disk.txt": _output("df", "-h", home, "/tmp") + _output("df", "-i", home, "/tmp"),  # noqa: S108
        "memory.txt": _output("free", "-m"),
        "processes.txt": _output("ps", "-eo", "pid,ppid,stat,etimes,rss,comm"),
        "stacks.txt": stacks.stacks(),
    }
    if since is not None:
        texts["kernel-attempt.txt"] = since
    texts.update(_libtpu())
    return {name: base64.b64encode(data).decode() for name, data in texts.items()}
