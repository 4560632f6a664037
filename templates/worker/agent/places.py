"""Where the agent keeps things on the machine, and how a file gets there whole. Knows paths; decides nothing.

~/.tpuops/run.json                      the run this machine has, or had last: {"run_id", "attempt"}
~/.tpuops/lock                          held by whoever starts, syncs or stops
~/.tpuops/source/<digest>/              synced source trees; `current` is a link to the one in use
~/.tpuops/setup/<digest>-<hash>.{log,done}
~/.tpuops/runs/<run id>/outputs/        TPUOPS_OUTPUTS
~/.tpuops/runs/<run id>/<attempt>/      spec.json launch.json train.log pid.json exit.json
"""

import contextlib
import fcntl
import json
import os
import re
import sys

SESSION = "tpuops"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


class Refused(Exception):
    """The request cannot be done; `kind` is for programs, the message and `evidence` for people."""

    def __init__(self, kind, message, evidence=(), code=1):
        super().__init__(message)
        self.kind, self.evidence, self.code = kind, list(evidence), code


def root():
    """The agent's folder, made when missing, readable by nobody else."""
    folder = os.path.join(os.path.expanduser("~"), ".tpuops")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def run_folder(run_id):
    """The folder of a run; refuses a name that could lead elsewhere."""
    if not NAME.match(run_id):
        raise Refused("usage", "not a run id: %r" % run_id[:80])
    return os.path.join(root(), "runs", run_id)


def attempt_folder(run_id, attempt):
    """The folder of one attempt of a run."""
    return os.path.join(run_folder(run_id), str(int(attempt)))


def source_folder(digest):
    """Where the source tree of that digest lies."""
    if not NAME.match(digest):
        raise Refused("usage", "not a digest: %r" % digest[:80])
    return os.path.join(root(), "source", digest)


def current_source():
    """The digest of the tree in use, or the empty string."""
    try:
        return os.path.basename(os.readlink(os.path.join(root(), "source", "current")))
    except OSError:
        return ""


def current_run():
    """(run id, attempt) of the run this machine has or had last; ("", 0) where it never had one."""
    record = read_json(os.path.join(root(), "run.json"))
    return (record["run_id"], record["attempt"]) if record else ("", 0)


def read_json(path):
    """The document in `path`, or None where there is none (a partial one is never there, see `write_json`)."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_folder(folder):
    """Make renames in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path, data, exclusive=False):
    """Put `data` at `path`, whole or not at all, on disk when this returns, mode 0600.

    With `exclusive` an existing file stays, and False is returned.
    """
    partial = "%s.%d.partial" % (path, os.getpid())
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        if exclusive:
            os.link(partial, path)
            os.unlink(partial)
        else:
            os.rename(partial, path)
    except FileExistsError:
        os.unlink(partial)
        return False
    sync_folder(os.path.dirname(path))
    return True


def write_json(path, document, exclusive=False):
    """`write_whole` for a JSON document."""
    return write_whole(path, json.dumps(document).encode() + b"\n", exclusive)


@contextlib.contextmanager
def locked():
    """Wait for, and hold, the machine's one lock: start, sync and stop never overlap."""
    with open(os.path.join(root(), "lock"), "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tail(path, size):
    """The last `size` bytes of a file."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read(size)


def itself(*words):
    """The argv that runs this program again."""
    return [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), *words]
