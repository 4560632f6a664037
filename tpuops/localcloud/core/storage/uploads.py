"""Uploads in their three forms: media, multipart and resumable. What they deliver is written by objects.py.

A resumable session keeps its chunks as documents, so it goes on after a break or a restart of the program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.storage import buckets, conditions, objects
from tpuops.localcloud.core.wire import Reply, json_reply
from tpuops.localcloud.core.world import Document

SESSION = "storage.upload"
CHUNK = "storage.chunk"
CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)$")
SESSION_S = 7 * 24 * 3600
"""A session that nobody finished ends after a week (the documentation of resumable uploads)."""
CONDITIONS = tuple(parameter for parameter, _, _ in conditions.MATCHES)


def insert(call: Call) -> Answer:
    """POST upload/.../b/B/o?uploadType=media|multipart|resumable."""
    bucket = buckets.existing(call)["name"]
    kind = call.query.get("uploadType", "media")
    content_type = call.request.headers.get("content-type", "")
    if kind == "resumable":
        return _open(call, bucket)
    if kind == "multipart":
        given, data = _parts(content_type, call.request.body)
    else:
        given, data = {"contentType": content_type} if content_type else {}, call.request.body
    return objects.write(call, (bucket, _name(call, given)), data, {**given, **_stated(call)})


def resume(call: Call) -> Answer:
    """PUT upload/...&upload_id=U: a chunk, the last chunk, or (`bytes */N`) the question how far it got."""
    upload = call.query.get("upload_id", "")
    session = call.world.get(SESSION, upload)
    if session is not None and session.get("opened", call.now) + SESSION_S <= call.now:
        _forget(call, upload)
        session = None
    if session is None:
        raise refuse("storage.no-upload")
    if session.get("done"):
        return json_reply(session["done"])
    first, total = _range(call)
    received = int(session["received"])
    if first is not None and first <= received:
        received = _append(call, upload, session, call.request.body[received - first :])
    if total is None or received < total:
        return _incomplete(received)
    return _finish(call, upload, session)


def cancel(call: Call) -> Answer:
    """DELETE upload/...&upload_id=U: the session and its bytes are forgotten."""
    upload = call.query.get("upload_id", "")
    if call.world.get(SESSION, upload) is None:
        raise refuse("storage.no-upload")
    _forget(call, upload)
    return Reply(499)


def _open(call: Call, bucket: str) -> Reply:
    given = call.body()
    name = _name(call, given)
    before = call.world.get(objects.KIND, f"{bucket}/{name}")
    conditions.check(call.query, before["shown"] if before else None, reading=False)
    content_type = call.request.headers.get("x-upload-content-type")
    if content_type and not given.get("contentType"):
        given["contentType"] = content_type
    upload = call.scene.draw.hex(40)
    asked = {parameter: call.query[parameter] for parameter in CONDITIONS if parameter in call.query}
    session = {"bucket": bucket, "name": name, "given": given, "query": asked, "received": 0, "chunks": 0}
    session["opened"] = call.now
    call.world.put(SESSION, upload, session)
    path = f"upload/storage/v1/b/{bucket}/o?uploadType=resumable&name={quote(name, safe='')}&upload_id={upload}"
    headers = {"Location": f"{call.request.base}/{path}", "X-GUploader-UploadID": upload}
    return Reply(200, headers)


def _append(call: Call, upload: str, session: Document, data: bytes) -> int:
    if data:
        key = f"{upload}/{session['chunks']:06d}"
        call.world.put(CHUNK, key, {"content": call.world.keep(data)})
        session.update(received=session["received"] + len(data), chunks=session["chunks"] + 1)
        call.world.put(SESSION, upload, session)
    return int(session["received"])


def _finish(call: Call, upload: str, session: Document) -> Reply:
    data = b"".join(call.world.content(chunk["content"]) for _, chunk in call.world.items(CHUNK, f"{upload}/"))
    before = call.world.get(objects.KIND, f"{session['bucket']}/{session['name']}")
    conditions.check(session["query"], before["shown"] if before else None, reading=False)
    shown = objects.write(call, (session["bucket"], session["name"]), data, {**session["given"], **_stated(call)})
    _forget(call, upload)
    call.world.put(SESSION, upload, {"done": shown})
    return json_reply(shown)


def _forget(call: Call, upload: str) -> None:
    for key, _ in call.world.items(CHUNK, f"{upload}/"):
        call.world.drop(CHUNK, key)
    call.world.drop(SESSION, upload)


def _incomplete(received: int) -> Reply:
    return Reply(308, {"Range": f"bytes=0-{received - 1}"} if received else {})


def _range(call: Call) -> tuple[int | None, int | None]:
    """First byte sent (None where only asked) and the whole size (None while unknown)."""
    header = call.request.headers.get("content-range", "")
    if not header:
        return 0, len(call.request.body)
    found = CONTENT_RANGE.match(header)
    if not found:
        raise refuse("storage.invalid", problem=f"Failed to parse Content-Range header: {header}")
    first, _, total = found.groups()
    return (int(first) if first is not None else None), (int(total) if total != "*" else None)


def _stated(call: Call) -> dict[str, str]:
    """The hashes that the header `x-goog-hash` states, as the fields of an object."""
    found = re.findall(r"(crc32c|md5)=([A-Za-z0-9+/=]+)", call.request.headers.get("x-goog-hash", ""))
    return {"md5Hash" if kind == "md5" else kind: value for kind, value in found}


def _name(call: Call, given: Mapping[str, Any]) -> str:
    name = str(call.query.get("name") or given.get("name") or "")
    if not name:
        raise refuse("storage.required", field="name")
    return name


def _parts(content_type: str, body: bytes) -> tuple[dict[str, Any], bytes]:
    """The metadata and the bytes of a multipart/related body. Bytes are cut exactly: they may hold anything."""
    found = re.search(r"""boundary=["']?([^"';]+)""", content_type)  # gcloud writes single quotes
    if not found:
        raise refuse("storage.invalid", problem="Multipart body without a boundary.")
    mark = b"--" + found.group(1).encode()
    pieces = body.split(mark)
    if len(pieces) < 4:
        raise refuse("storage.invalid", problem="Multipart body must have two parts.")
    _, metadata = _piece(pieces[1])
    headers, data = _piece(mark.join(pieces[2:-1]))
    given = json.loads(metadata or b"{}")
    declared = re.search(rb"(?im)^content-type:\s*([^\r\n]+)", headers)
    if declared and not given.get("contentType"):
        given["contentType"] = declared.group(1).decode().strip()
    return given, data


def _piece(piece: bytes) -> tuple[bytes, bytes]:
    """Headers and content of one part; the line end before the next boundary does not belong to it."""
    newline = b"\r\n" if piece.startswith(b"\r\n") else b"\n"
    headers, _, content = piece[len(newline) :].partition(newline * 2)
    if piece.startswith(newline * 2):
        headers, content = b"", piece[2 * len(newline) :]
    return headers, content.removesuffix(newline)
