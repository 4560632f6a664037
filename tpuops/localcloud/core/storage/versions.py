"""Generations that are no longer the live one: kept by object versioning, or for a while by soft delete.

Facts: google-cloud.md 4.7. Soft delete is on for new buckets, covers deleted and overwritten objects, and never stops
a bucket from being deleted; what has been kept long enough is swept out when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuops.localcloud.core.draw import parse_timestamp, short_timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call, Scene
from tpuops.localcloud.core.world import Document

OLD = "storage.old"


def retire(call: Call | Scene, bucket: str, stored: Document | None, *, named: bool = False) -> None:
    """Keep what is about to be overwritten or deleted, where the bucket says so; one deleted by `named` generation
    does not become noncurrent."""
    settings = call.world.get("storage.bucket", bucket)
    if stored is None or settings is None:
        return
    shown, at = stored["shown"], short_timestamp(call.now)
    keep_s = float(settings["softDeletePolicy"].get("retentionDurationSeconds") or 0)
    if (settings.get("versioning") or {}).get("enabled") and not named:
        kept = {**shown, "timeDeleted": at}
    elif keep_s:
        kept = {**shown, "softDeleteTime": at, "hardDeleteTime": short_timestamp(call.now + keep_s)}
    else:
        return
    key = f"{bucket}/{shown['name']}#{shown['generation']}"
    call.world.put(OLD, key, {"shown": kept, "content": stored["content"]})


def remove(call: Call | Scene, bucket: str, stored: Document) -> None:
    """Delete one noncurrent generation: soft where the bucket says so."""
    shown = stored["shown"]
    call.world.drop(OLD, f"{bucket}/{shown['name']}#{shown['generation']}")
    settings = call.world.get("storage.bucket", bucket)
    assert settings is not None
    keep_s = float(settings["softDeletePolicy"].get("retentionDurationSeconds") or 0)
    if keep_s and "softDeleteTime" not in shown:
        times = {"softDeleteTime": short_timestamp(call.now), "hardDeleteTime": short_timestamp(call.now + keep_s)}
        call.world.put(OLD, f"{bucket}/{shown['name']}#{shown['generation']}", {**stored, "shown": {**shown, **times}})


def noncurrent(call: Call | Scene, bucket: str, prefix: str = "") -> Iterator[tuple[str, Document]]:
    """Generations that versioning keeps."""
    for key, stored in call.world.items(OLD, f"{bucket}/{prefix}"):
        if "softDeleteTime" not in stored["shown"]:
            yield key, stored


def soft_deleted(call: Call, bucket: str, prefix: str = "") -> Iterator[tuple[str, Document]]:
    """Generations that soft delete still keeps."""
    for key, stored in call.world.items(OLD, f"{bucket}/{prefix}"):
        end = stored["shown"].get("hardDeleteTime")
        if end and parse_timestamp(end) <= call.now:
            call.world.drop(OLD, key)
        elif end:
            yield key, stored


def find(call: Call, bucket: str, name: str, generation: str, *, soft: bool) -> Document:
    """An old generation. Raises where it is not kept."""
    stored = call.world.get(OLD, f"{bucket}/{name}#{generation}")
    if stored is None or ("softDeleteTime" in stored["shown"]) != soft:
        raise refuse("storage.no-object", bucket=bucket, object=name)
    return stored


def forget(call: Call, bucket: str) -> None:
    """The bucket is gone, and so is what it kept."""
    for key, _ in call.world.items(OLD, f"{bucket}/"):
        call.world.drop(OLD, key)
