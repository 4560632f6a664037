"""Small texts that explain a failure. Each is bounded in time and size; what could not be read says so."""

import base64
import glob
import os
import subprocess

import devices
import places

TAIL_BYTES = 32768
LOGS = 8


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
    texts = {
        "kernel.txt": _kernel(),
        "devices.txt": _held(),
        "disk.txt": _output("df", "-h", home, "/tmp") + _output("df", "-i", home, "/tmp"),  # noqa: S108
        "memory.txt": _output("free", "-m"),
        "processes.txt": _output("ps", "-eo", "pid,ppid,stat,etimes,rss,comm"),
    }
    texts.update(_libtpu())
    return {name: base64.b64encode(data).decode() for name, data in texts.items()}
