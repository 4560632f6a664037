"""Secrets between the word that starts an attempt and its first instruction: in memory's file system, never on a disk.

One small file of mode 0600 in a folder of this user's, gone as soon as the training process runs. Where there is no
such file system, a private folder of the agent's takes its place. Nothing here is ever logged or sent anywhere.
"""

import contextlib
import os
import shutil
import stat

import places

MEMORY = "/dev/shm"  # noqa: S108 - the folder below it is this user's alone, and checked to be


def put(run_id, attempt, secrets):
    """Leave the secrets for the recorder; what an earlier attempt left goes."""
    clear()
    if secrets:
        places.write_json(_path(run_id, attempt), {str(key): str(value) for key, value in secrets.items()})


def read(run_id, attempt):
    """The secrets of the attempt; none where none were left."""
    return places.read_json(_path(run_id, attempt)) or {}


def clear():
    """Remove whatever is there."""
    for folder in (_memory(), os.path.join(places.root(), "hidden")):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _path(run_id, attempt):
    places.attempt_folder(run_id, attempt)  # refuses a name that could lead elsewhere
    return os.path.join(_folder(), "%s-%d.json" % (run_id, int(attempt)))


def _memory():
    return os.path.join(MEMORY, "tpuops-%d" % os.getuid())


def _folder():
    for folder in (_memory(), os.path.join(places.root(), "hidden")):
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            found = os.lstat(folder)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700:
            return folder
    raise places.Refused("hidden", "there is no private place for the secrets on this machine")
