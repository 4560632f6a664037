"""Objects: reading, listing, changing metadata, deleting, and writing a finished one. Uploads arrive via uploads.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from typing import Any

from tpuops.localcloud.core.draw import parse_timestamp
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.storage import buckets, conditions, protection, shape, versions
from tpuops.localcloud.core.wire import Reply
from tpuops.localcloud.core.world import Document

KIND = shape.OBJECT
RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


def get(call: Call) -> Answer:
    """GET b/B/o/O, and its bytes with alt=media (whole, or one range)."""
    stored = existing(call)
    conditions.check(call.query, stored["shown"], reading=True)
    if call.query.get("alt") == "media":
        return _media(call, stored)
    shown: Document = stored["shown"]
    return shown


def listing(call: Call) -> Answer:
    """GET b/B/o: by prefix, folded at a delimiter, in pages."""
    bucket = buckets.existing(call)["name"]
    found = _folded(call, bucket)
    size = page_size(call.query.get("maxResults", ""), 1000)
    chosen, token = page(found, size, call.query.get("pageToken", ""))
    reply: Document = {"kind": "storage#objects"}
    items = [entry["shown"] for _, entry in chosen if "shown" in entry]
    prefixes = [entry["prefix"] for _, entry in chosen if "prefix" in entry]
    reply.update({key: value for key, value in (("items", items), ("prefixes", prefixes)) if value})
    return {**reply, "nextPageToken": token} if token else reply


def delete(call: Call) -> Answer:
    """DELETE b/B/o/O."""
    stored = existing(call)
    shown = stored["shown"]
    conditions.check(call.query, shown, reading=False)
    protection.check(call, shown)
    conditions.check_rate(call, shown["bucket"], shown["name"])
    key = f"{shown['bucket']}/{shown['name']}"
    if call.world.get(KIND, key) is not stored:
        versions.remove(call, shown["bucket"], stored)
    else:
        versions.retire(call, shown["bucket"], stored, named="generation" in call.query)
        call.world.drop(KIND, key)
    return Reply(204)


def restore(call: Call) -> Answer:
    """POST b/B/o/O/restore?generation=G: a soft-deleted generation becomes a new live one."""
    bucket, name = buckets.existing(call)["name"], call.params["object"]
    stored = versions.find(call, bucket, name, call.query.get("generation", ""), soft=True)
    given = {field: stored["shown"].get(field) for field in shape.OBJECT_FIELDS}
    return write(call, (bucket, name), call.world.content(stored["content"]), given)


def move(call: Call) -> Answer:
    """POST b/B/o/O/moveTo/o/O2: the same bytes under another name of the bucket."""
    bucket = buckets.existing(call)["name"]
    stored = existing(call)
    conditions.check(call.query, stored["shown"], reading=False, source=True)
    protection.check(call, stored["shown"])
    given = {field: stored["shown"].get(field) for field in shape.OBJECT_FIELDS}
    written = write(call, (bucket, call.params["targetObject"]), call.world.content(stored["content"]), given)
    versions.retire(call, bucket, stored)
    call.world.drop(KIND, f"{bucket}/{call.params['object']}")
    return written


def patch(call: Call) -> Answer:
    """PATCH b/B/o/O: metadata only; the generation stays."""
    stored = existing(call)
    conditions.check(call.query, stored["shown"], reading=False)
    return _changed(call, stored, stored["shown"])


def update(call: Call) -> Answer:
    """PUT b/B/o/O: as patch, but what is not given is cleared."""
    stored = existing(call)
    conditions.check(call.query, stored["shown"], reading=False)
    kept = {key: value for key, value in stored["shown"].items() if key not in {"metadata", "cacheControl"}}
    return _changed(call, stored, kept)


def _changed(call: Call, stored: Document, kept: Mapping[str, Any]) -> Document:
    """The generation with the metadata of the call's body; one that is not live any more stays so."""
    body = call.body()
    protection.check_acl(call, buckets.existing(call), body)
    conditions.check_rate(call, kept["bucket"], kept["name"])
    changed = shape.touched(call.scene, kept, body, shape.OBJECT_FIELDS)
    old = "timeDeleted" in changed
    key = f"{changed['bucket']}/{changed['name']}" + (f"#{changed['generation']}" if old else "")
    call.world.put(versions.OLD if old else KIND, key, {"shown": changed, "content": stored["content"]})
    return changed


def compose(call: Call) -> Answer:
    """POST b/B/o/O/compose: up to 32 objects of the bucket, one after another."""
    body = call.body()
    sources = body.get("sourceObjects") or []
    if not 1 <= len(sources) <= 32:
        raise refuse("storage.invalid", problem="The number of source components provided is out of range (1 to 32).")
    bucket = buckets.existing(call)["name"]
    data = b""
    for source in sources:
        stored = lookup(call, bucket, source["name"], str(source.get("generation") or ""))
        wanted = (source.get("objectPreconditions") or {}).get("ifGenerationMatch")
        conditions.check(
            {"ifGenerationMatch": str(wanted)} if wanted is not None else {}, stored["shown"], reading=False
        )
        data += call.world.content(stored["content"])
    written = write(call, (bucket, call.params["object"]), data, _without_hashes(body.get("destination") or {}))
    changed = {**written, "componentCount": len(sources)}
    changed.pop("md5Hash", None)  # a composed object has no MD5, only a CRC32C
    stored = call.world.get(KIND, f"{bucket}/{call.params['object']}") or {}
    call.world.put(KIND, f"{bucket}/{call.params['object']}", {"shown": changed, "content": stored["content"]})
    return changed


def rewrite(call: Call) -> Answer:
    """POST b/B/o/O/rewriteTo/b/B2/o/O2: always done in one call."""
    written = copy(call)
    size = written["size"]
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": written,
    }


def copy(call: Call) -> Document:
    """POST b/B/o/O/copyTo/b/B2/o/O2."""
    stored = existing(call, generation_field="sourceGeneration")
    conditions.check(call.query, stored["shown"], reading=False, source=True)
    target = call.params["targetBucket"]
    if call.world.get(buckets.KIND, target) is None:
        raise refuse("storage.no-bucket")
    given = {**{field: stored["shown"].get(field) for field in shape.OBJECT_FIELDS}, **_without_hashes(call.body())}
    return write(call, (target, call.params["targetObject"]), call.world.content(stored["content"]), given)


def _without_hashes(given: Mapping[str, Any]) -> dict[str, Any]:
    """gcloud sends the source's metadata along, its hashes too; the service computes those of the result."""
    return {field: value for field, value in given.items() if field not in {"crc32c", "md5Hash"}}


def write(call: Call, names: tuple[str, str], data: bytes, given: Mapping[str, Any]) -> Document:
    """A new generation under (bucket, name), if the call's preconditions hold and given hashes fit the bytes."""
    bucket, name = names
    key = f"{bucket}/{name}"
    before = call.world.get(KIND, key)
    conditions.check(call.query, before["shown"] if before else None, reading=False)
    protection.check_acl(call, call.world.get(buckets.KIND, bucket) or {}, given)
    found = shape.hashes(data)
    for field, kind in (("crc32c", "CRC32C"), ("md5Hash", "MD5")):
        if given.get(field) and given[field] != found[field]:
            raise refuse("storage.hash", kind=kind, given=given[field], found=found[field])
    if before:
        protection.check(call, before["shown"])
    conditions.check_rate(call, bucket, name)
    shown = shape.object_document(call.scene, names, data, found, given)
    versions.retire(call, bucket, before)
    call.world.put(KIND, key, {"shown": shown, "content": call.world.keep(data)})
    return shown


def existing(call: Call, generation_field: str = "generation") -> Document:
    """The object of the call. Raises where it, its bucket or the generation asked for does not exist."""
    bucket = buckets.existing(call)["name"]
    return lookup(call, bucket, call.params["object"], call.query.get(generation_field, ""))


def lookup(call: Call, bucket: str, name: str, generation: str) -> Document:
    """An object by name, and by generation where one is given."""
    stored = call.world.get(KIND, f"{bucket}/{name}")
    if call.flag("softDeleted"):
        return versions.find(call, bucket, name, generation, soft=True)
    if stored is not None and generation in {"", stored["shown"]["generation"]}:
        return stored
    if generation:
        return versions.find(call, bucket, name, generation, soft=False)
    raise refuse("storage.no-object", bucket=bucket, object=name)


def _folded(call: Call, bucket: str) -> Iterator[tuple[str, Document]]:
    """Objects, or the common prefixes that a delimiter makes of them, by name."""
    prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
    start, end = call.query.get("startOffset", ""), call.query.get("endOffset", "")
    folded = ""
    for key, stored in _listed(call, bucket, prefix):
        name = stored["shown"]["name"]
        if name < start or (end and name >= end):
            continue
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield key[len(bucket) + 1 :], stored
        elif name[: cut + len(delimiter)] != folded:
            folded = name[: cut + len(delimiter)]
            yield folded, {"prefix": folded}


def _listed(call: Call, bucket: str, prefix: str) -> Iterator[tuple[str, Document]]:
    """The live objects, or with all their generations, or those that soft delete keeps."""
    live = call.world.items(KIND, f"{bucket}/{prefix}")
    if call.flag("softDeleted"):
        yield from versions.soft_deleted(call, bucket, prefix)
    elif call.flag("versions"):
        named = ((f"{key}#{stored['shown']['generation']}", stored) for key, stored in live)
        yield from sorted([*named, *versions.noncurrent(call, bucket, prefix)], key=lambda entry: entry[0])
    else:
        yield from live


def _media(call: Call, stored: Document) -> Reply:
    shown = stored["shown"]
    data = call.world.content(stored["content"])
    hashes = [f"crc32c={shown['crc32c']}"] + ([f"md5={shown['md5Hash']}"] if "md5Hash" in shown else [])
    headers = {
        "Content-Type": shown["contentType"],
        "ETag": shown["etag"],
        "X-Goog-Generation": shown["generation"],
        "X-Goog-Metageneration": shown["metageneration"],
        "X-Goog-Stored-Content-Length": shown["size"],
        "X-Goog-Stored-Content-Encoding": shown.get("contentEncoding", "identity"),
        "X-Goog-Storage-Class": shown["storageClass"],
        "X-Goog-Hash": ",".join(hashes),
        "Last-Modified": formatdate(parse_timestamp(shown["updated"]), usegmt=True),
        "Accept-Ranges": "bytes",
    }
    span = _span(call.request.headers.get("range", ""), len(data))
    if span is None:
        return Reply(200, headers, data)
    first, last = span
    headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
    return Reply(206, headers, data[first : last + 1])


def _span(header: str, size: int) -> tuple[int, int] | None:
    """First and last byte asked for, or None for the whole. Raises 416 where the object ends before it."""
    found = RANGE.match(header)
    if not found or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        span = (max(0, size - int(last)), size - 1)
    else:
        span = (int(first), min(int(last) if last else size - 1, size - 1))
    if span[0] >= size or span[0] > span[1]:
        raise refuse("storage.range")
    return span
