"""Receives a source tree: a tar stream becomes ~/.tpuops/source/<digest>, whole or not at all.

The digest is computed again from what arrives, as tpuops/remote/sync.py computes it; a torn stream never passes.
"""

import hashlib
import json
import os
import shutil
import sys
import tarfile

import places
import replies

KEEP = 3


def line(path, mode, kind, value):
    """One entry's line in the digest: kind "f" with the content's sha256, or "l" with the link's target."""
    return json.dumps([path, mode, kind, value]).encode() + b"\n"


def sync(digest):
    """Receive the tree `digest` from standard input unless it is here; then make it the current one."""
    folder = places.source_folder(digest)
    have = os.path.isdir(folder)
    replies.say({"have": have})
    if not have:
        partial = "%s.%d.partial" % (folder, os.getpid())
        os.makedirs(partial)
        try:
            found = _unpack(sys.stdin.buffer, partial)
            if found != digest:
                raise places.Refused("torn", "the tree that arrived is not the one announced: it changed or was cut")
            os.sync()
            _put(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    with places.locked():
        _make_current(digest)
        _forget_old()
    return {"source": digest}


def _put(partial, folder):
    try:
        os.rename(partial, folder)
    except OSError:
        if not os.path.isdir(folder):  # else: another one brought the same tree first
            raise
    places.sync_folder(os.path.dirname(folder))


def _make_current(digest):
    link = os.path.join(places.root(), "source", "current")
    fresh = "%s.%d.partial" % (link, os.getpid())
    os.symlink(digest, fresh)
    os.rename(fresh, link)


def _forget_old():
    top = os.path.join(places.root(), "source")
    trees = [name for name in os.listdir(top) if name != "current" and not name.endswith(".partial")]
    trees.sort(key=lambda name: os.stat(os.path.join(top, name)).st_mtime, reverse=True)
    run_id, attempt = places.current_run()
    spec = places.read_json(os.path.join(places.attempt_folder(run_id, attempt), "spec.json")) if run_id else None
    keep = {places.current_source(), (spec or {}).get("source")}
    for name in [name for name in trees if name not in keep][KEEP:]:
        shutil.rmtree(os.path.join(top, name), ignore_errors=True)


def _unpack(stream, top):
    digest, links = hashlib.sha256(), []
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                digest.update(_place(tar, member, top, links))
    except tarfile.TarError as error:
        raise places.Refused("torn", "the source stream is damaged: %s" % error) from None
    inside = os.path.realpath(top) + os.sep
    for link in links:
        if not (os.path.realpath(link) + os.sep).startswith(inside):
            raise places.Refused("escape", "a link leads out of the source tree: %r" % os.path.relpath(link, top))
    return digest.hexdigest()


def _target(name, top):
    """Where a member goes; refuses what is absolute, climbs, or passes through a link."""
    parts = name.split("/")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise places.Refused("escape", "a member leads out of the source tree: %r" % name[:200])
    path = top
    for part in parts[:-1]:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise places.Refused("escape", "a member passes through a link: %r" % name[:200])
        os.makedirs(path, exist_ok=True)
    return os.path.join(path, parts[-1])


def _place(tar, member, top, links):
    path, mode = _target(member.name, top), member.mode & 0o777
    if member.issym():
        os.symlink(member.linkname, path)
        links.append(path)
        return line(member.name, 0, "l", member.linkname)
    if not member.isreg():
        raise places.Refused("escape", "neither file nor link: %r" % member.name[:200])
    content, source = hashlib.sha256(), tar.extractfile(member)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        for piece in iter(lambda: source.read(1 << 18), b""):
            content.update(piece)
            file.write(piece)
        os.fchmod(file.fileno(), mode)
    return line(member.name, mode, "f", content.hexdigest())
