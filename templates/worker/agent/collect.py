"""Brings a run's outputs and logs into the bucket: each file sent or there already, the bucket's md5 equal to ours.

Objects: <prefix>/outputs/..., <prefix>/logs/<attempt>/{train.log,exit.json}, <prefix>/logs/setup.log. Nothing outside
the run's folder is followed; the spec stays here, since its environment may hold secrets.
"""

import base64
import concurrent.futures
import errno
import hashlib
import os

import bucket
import places
import setup

THREADS = 8
TRIES = 3


def collect(name, prefix):
    """{"saved": [{name, size, md5}], "failed": [{name, error}]} for the run this machine had last."""
    run_id, _ = places.current_run()
    if not run_id:
        return {"saved": [], "failed": []}
    target = bucket.Bucket(name)
    try:
        there = target.listed(prefix)
    except bucket.Failed as error:
        raise places.Refused("bucket", "cannot look into gs://%s/%s: %s" % (name, prefix, error)) from None
    saved, failed = [], []
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        waiting = {pool.submit(_save, target, there, goal, path): goal for goal, path in _files(run_id, prefix, failed)}
        for done in concurrent.futures.as_completed(waiting):
            try:
                saved.append(done.result())
            except (bucket.Failed, OSError) as error:
                failed.append({"name": waiting[done], "error": str(error)})
    return {"saved": sorted(saved, key=lambda file: file["name"]), "failed": failed}


def _files(run_id, prefix, failed):
    """(object name, path) of each file to save; what is no file of this run's goes to `failed`."""
    folder = places.run_folder(run_id)
    for path in _walk(os.path.join(folder, "outputs"), failed):
        yield prefix + "/outputs/" + _named(path, os.path.join(folder, "outputs")), path
    for attempt in sorted(name for name in os.listdir(folder) if name.isdigit()):
        for name in ("train.log", "exit.json"):
            path = os.path.join(folder, attempt, name)
            if os.path.isfile(path):
                yield "%s/logs/%s/%s" % (prefix, attempt, name), path
    attempt = places.current_run()[1]
    spec = places.read_json(os.path.join(folder, str(attempt), "spec.json"))
    log = setup.log_of(spec) if spec else None
    if log:
        yield prefix + "/logs/setup.log", log


def _walk(top, failed):
    """Every regular file below `top`. A link is followed only to a file that lies below `top` itself."""
    inside = os.path.realpath(top) + os.sep

    def unread(error):
        if error.errno != errno.ENOENT:  # there is none, or it is gone by now
            failed.append({"name": _named(error.filename, top), "error": str(error)})

    for folder, folders, names in os.walk(top, onerror=unread):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(names + links):
            path = os.path.join(folder, name)
            within = (os.path.realpath(path) + os.sep).startswith(inside)
            if within and name in links:
                continue  # what it leads to is saved under its own name
            if not within or not os.path.isfile(path):
                failed.append({"name": _named(path, top), "error": "not a file inside the outputs folder"})
            else:
                yield path


def _named(path, top):
    """The path below `top` as text: a bucket's names are UTF-8, a file's may be any bytes."""
    return os.fsencode(os.path.relpath(path, top)).decode("utf-8", "backslashreplace")


def _save(target, there, name, path):
    """Upload one file unless it is there; a file that changes meanwhile is read again."""
    for _ in range(TRIES):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            small = file.read() if size <= bucket.PIECE_BYTES else None
            md5 = hashlib.md5(small) if small is not None else _md5(file, size)  # noqa: S324 - the bucket's own
            ours = (size if small is None else len(small), base64.b64encode(md5.digest()).decode())
            if there.get(name) == ours:
                break
            stored = target.put(name, small) if small is not None else target.put_large(name, file, size)
        if stored == ours:
            break
    else:
        raise bucket.Failed("the bucket has other bytes than were sent, %d times" % TRIES)
    return {"name": name, "size": ours[0], "md5": ours[1]}


def _md5(file, size):
    digest, left = hashlib.md5(), size  # noqa: S324 - the checksum the bucket reports
    while left > 0:
        data = file.read(min(1 << 20, left))
        if not data:
            break
        digest.update(data)
        left -= len(data)
    return digest
