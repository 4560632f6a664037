"""Cloud Storage over its plain JSON API, as far as an upload needs it, by the machine's own identity.

STORAGE_EMULATOR_HOST and GCE_METADATA_HOST redirect it, as they do Google's own clients (facts: 7.5, 7.6). Retries what
Google names retryable (4.4: 408, 429, 5xx, broken connections), a bounded number of times.
"""

import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

TRIES = 6
TIMEOUT_S = 60
PIECE_BYTES = 8 << 20  # a multiple of 256 KiB, as resumable uploads require
RETRYABLE = (408, 429, 500, 502, 503, 504)


class Failed(Exception):
    """A request that no retry helped."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """308 means "go on" in a resumable upload, and a token must not follow a redirect to another host."""

    def redirect_request(self, *args, **kwargs):
        return None


class Bucket:
    """One bucket. Safe to use from several threads. `heard`: the date of the last answer, and our clock then."""

    def __init__(self, name, tries=TRIES, timeout_s=TIMEOUT_S):
        self.tries, self.timeout_s, self.heard = tries, timeout_s, None
        emulated = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
        self.base = emulated or "https://storage.googleapis.com"
        self.name = urllib.parse.quote(name, safe="")
        self.metadata = os.environ.get("GCE_METADATA_HOST") or (None if emulated else "metadata.google.internal")
        self.direct = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        self.opener = self.direct if emulated else urllib.request.build_opener(_NoRedirect)
        self.lock, self.token = threading.Lock(), None

    def _authorization(self, fresh):
        if not self.metadata:
            return {}
        with self.lock:
            if fresh or self.token is None:
                url = "http://%s/computeMetadata/v1/instance/service-accounts/default/token" % self.metadata
                request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
                with self.direct.open(request, timeout=10) as reply:
                    self.token = json.load(reply)["access_token"]
            return {"Authorization": "Bearer " + self.token}

    def request(self, verb, url, body=b"", headers=None):
        """(status, headers, body) of one request, retried while it helps; 308 and 404 are answers, not failures."""
        said, fresh = "", False
        for attempt in range(self.tries):
            if attempt:
                time.sleep(random.random() * min(0.25 * 2**attempt, 8))  # noqa: S311 - jitter, no secret
            try:
                all_headers = {**(headers or {}), **self._authorization(fresh)}
                request = urllib.request.Request(url, body or None, all_headers, method=verb)
                with self.opener.open(request, timeout=self.timeout_s) as reply:
                    self.heard = reply.headers.get("Date"), time.time()
                    return reply.status, reply.headers, reply.read()
            except urllib.error.HTTPError as error:
                self.heard = error.headers.get("Date"), time.time()
                text = error.read(2000)
                if error.code in (308, 404):
                    return error.code, error.headers, text
                said = "%d %s" % (error.code, " ".join(text.decode("utf-8", "replace").split())[:300])
                fresh = error.code == 401
                if error.code not in RETRYABLE and (error.code != 401 or attempt > 1):
                    break
            except (OSError, http.client.HTTPException, ValueError) as error:
                said = "%s: %s" % (type(error).__name__, error)
        raise Failed("%s of %s: %s" % (verb, url.partition("?")[0].rpartition("/")[2][:200], said))

    def listed(self, prefix):
        """{name: (size, md5)} of the objects below `prefix`."""
        found, page = {}, ""
        while True:
            query = {"prefix": prefix, "fields": "items(name,size,md5Hash),nextPageToken", "pageToken": page}
            url = "%s/storage/v1/b/%s/o?%s" % (self.base, self.name, urllib.parse.urlencode(query))
            status, _, body = self.request("GET", url)
            if status == 404:
                raise Failed("bucket %s: 404 not found" % self.name)
            reply = json.loads(body)
            found.update({o["name"]: (int(o["size"]), o.get("md5Hash", "")) for o in reply.get("items", [])})
            page = reply.get("nextPageToken", "")
            if not page:
                return found

    def put(self, name, data):
        """Upload bytes in one request; (size, md5) as the bucket has them."""
        status, _, body = self.request("POST", self._upload("media", name), data, _kind(len(data)))
        return _stored(status, body)

    def get(self, name):
        """An object's bytes."""
        status, _, body = self.request("GET", self._object(name) + "?alt=media")
        return _there(status, body)

    def remove(self, name):
        """Remove an object; one that is not there is no failure."""
        self.request("DELETE", self._object(name))

    def identity(self):
        """Who this machine is to the bucket: {"account", "scopes"}, empty where its metadata server does not tell."""
        found = {"account": "", "scopes": ""}
        for key, path in (("account", "email"), ("scopes", "scopes")) if self.metadata else ():
            url = "http://%s/computeMetadata/v1/instance/service-accounts/default/%s" % (self.metadata, path)
            try:
                request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
                with self.direct.open(request, timeout=5) as reply:
                    found[key] = " ".join(reply.read(4000).decode("utf-8", "replace").split())
            except (OSError, http.client.HTTPException):
                break
        return found

    def put_large(self, name, file, size):
        """Upload `size` bytes of an open file in pieces, going on after each break where the bucket says it is."""
        headers = {"X-Upload-Content-Length": str(size), **_kind(0)}
        status, reply, body = self.request("POST", self._upload("resumable", name), b"", headers)
        where = reply.get("Location") or ""
        if status == 404 or urllib.parse.urlsplit(where).netloc != urllib.parse.urlsplit(self.base).netloc:
            raise Failed("no upload session for %s: %d %r" % (name, status, where[:200]))
        offset = 0
        while True:
            piece = os.pread(file.fileno(), min(PIECE_BYTES, size - offset), offset)
            span = "bytes %d-%d/%d" % (offset, offset + len(piece) - 1, size)
            status, reply, body = self.request("PUT", where, piece, {"Content-Range": span, **_kind(len(piece))})
            if status != 308:
                return _stored(status, body)
            arrived = int(reply["Range"].rpartition("-")[2]) + 1 if reply.get("Range") else 0
            if not piece or arrived <= offset:
                raise Failed("%s: the bucket stays at byte %d of %d" % (name, arrived, size))
            offset = arrived

    def _object(self, name):
        return "%s/storage/v1/b/%s/o/%s" % (self.base, self.name, urllib.parse.quote(name, safe=""))

    def _upload(self, kind, name):
        query = urllib.parse.urlencode({"uploadType": kind, "name": name})
        return "%s/upload/storage/v1/b/%s/o?%s" % (self.base, self.name, query)


def _kind(size):
    return {"Content-Type": "application/octet-stream", "Content-Length": str(size)}


def _there(status, body):
    if status == 404:
        raise Failed("404 not found: " + body.decode("utf-8", "replace")[:200])
    return body


def _stored(status, body):
    reply = json.loads(_there(status, body))
    return int(reply["size"]), reply["md5Hash"]
