"""Checkpoints that are either whole or not there, in a folder or in a bucket.

Each is a data file and then, written last, a small manifest with the data's size and md5. A checkpoint without a
manifest, or whose data do not match it, is never resumed: the one before it is. Never decides when to save.
"""

import hashlib
import io
import json
import os
import pathlib

import numpy as np

KEEP = 3


class Folder:
    """Files below a local folder."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.root.mkdir(parents=True, exist_ok=True)

    def names(self):
        """Every file name there."""
        return [path.name for path in self.root.iterdir() if not path.name.endswith(".partial")]

    def read(self, name):
        """The file's bytes."""
        return (self.root / name).read_bytes()

    def write(self, name, data):
        """Write the file so that it is on disk, whole, when this returns."""
        partial = self.root / (name + ".partial")
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.root / name)

    def delete(self, name):
        """Remove the file, if it is there."""
        try:
            (self.root / name).unlink()
        except FileNotFoundError:
            return


class Bucket:
    """Objects below a gs:// prefix; an object is visible only when all of it has arrived."""

    def __init__(self, url):
        from google.cloud import storage

        name, _, self.prefix = url[len("gs://") :].rstrip("/").partition("/")
        self.bucket = storage.Client().bucket(name)

    def _blob(self, name):
        return self.bucket.blob(self.prefix + "/" + name)

    def names(self):
        """Every object name below the prefix, without the prefix."""
        start = len(self.prefix) + 1
        return [blob.name[start:] for blob in self.bucket.client.list_blobs(self.bucket, prefix=self.prefix + "/")]

    def read(self, name):
        """The object's bytes."""
        return self._blob(name).download_as_bytes()

    def write(self, name, data):
        """Upload the object; the client checks the checksum."""
        self._blob(name).upload_from_string(data, content_type="application/octet-stream")

    def delete(self, name):
        """Remove the object, if it is there."""
        self.bucket.delete_blobs([self._blob(name)], on_error=lambda blob: None)


def open_store(url):
    """The store that `url` (gs://bucket/prefix, or a local folder) names."""
    return Bucket(url) if url.startswith("gs://") else Folder(url)


def save(store, step, arrays):
    """Write checkpoint `step` (a dict of arrays): the data, then the manifest; then forget all but the last three."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data, name = buffer.getvalue(), f"step-{step:08d}"
    manifest = {"step": step, "data": name + ".npz", "size": len(data), "md5": hashlib.md5(data).hexdigest()}  # noqa: S324
    store.write(manifest["data"], data)
    store.write(name + ".json", json.dumps(manifest).encode())
    for old in _manifests(store.names())[KEEP:]:
        store.delete(old)  # the manifest first: data without one are never resumed
        store.delete(old[: -len(".json")] + ".npz")


def newest(store):
    """The newest whole checkpoint as (step, arrays), or (0, None). Says on stdout which ones it had to pass over."""
    for name in _manifests(store.names()):
        try:
            return _load(store, name)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this one, the one before it may be right
            print(f"checkpoint {name} passed over: {error}", flush=True)
    return 0, None


def _load(store, name):
    manifest = json.loads(store.read(name))
    data = store.read(manifest["data"])
    if len(data) != manifest["size"] or hashlib.md5(data).hexdigest() != manifest["md5"]:  # noqa: S324
        raise ValueError(f"{manifest['data']} does not match its manifest")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return int(manifest["step"]), {key: arrays[key] for key in arrays.files}


def _manifests(names):
    return sorted((name for name in names if name.startswith("step-") and name.endswith(".json")), reverse=True)
