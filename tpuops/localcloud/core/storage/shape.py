"""Bucket and object documents as the API shows them: hashes, generations, links. Changes nothing but counters."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import google_crc32c

from tpuops.localcloud.core.draw import parse_timestamp, project_number, short_timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Scene
from tpuops.localcloud.core.wire import LINK
from tpuops.localcloud.core.world import Document

OBJECT = "storage.object"
BUCKET_NAME = re.compile(r"^[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]$")
DUAL_REGIONS = frozenset({"NAM4", "EUR4", "EUR5", "EUR7", "EUR8", "ASIA1"})
MULTI_REGIONS = frozenset({"US", "EU", "ASIA"})
BUCKET_FIELDS = (
    "labels",
    "lifecycle",
    "versioning",
    "softDeletePolicy",
    "iamConfiguration",
    "storageClass",
    "customPlacementConfig",
    "retentionPolicy",
    "autoclass",
    "hierarchicalNamespace",
    "website",
    "cors",
    "defaultEventBasedHold",
    "billing",
    "encryption",
    "logging",
    "rpo",
)
OBJECT_FIELDS = (
    "contentType",
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "metadata",
    "storageClass",
    "customTime",
    "temporaryHold",
    "eventBasedHold",
)
SOFT_DELETE_S = 7 * 24 * 3600
"""Soft delete is on for new buckets unless they say otherwise (google-cloud.md 4.7)."""
LONGEST_SOFT_DELETE_S = 90 * 24 * 3600
LOCKING_S = 90 * 24 * 3600
"""After this long uniform access cannot be ended any more (google-cloud.md 4.8)."""


def new_generation(scene: Scene) -> int:
    """A generation: microseconds of the epoch, never given twice, always rising."""
    last = scene.world.get("cloud", "generation") or {"last": 0}
    last["last"] = max(int(scene.now * 1_000_000), last["last"] + 1)
    scene.world.put("cloud", "generation", last)
    return int(last["last"])


def etag(generation: object, metageneration: object) -> str:
    """An entity tag that changes with data and metadata."""
    return base64.b64encode(hashlib.sha256(f"{generation}/{metageneration}".encode()).digest()[:9]).decode()


def hashes(data: bytes) -> dict[str, str]:
    """The two hashes that the service computes, in base64."""
    crc = google_crc32c.value(data).to_bytes(4, "big")
    md5 = hashlib.md5(data, usedforsecurity=False).digest()
    return {"crc32c": base64.b64encode(crc).decode(), "md5Hash": base64.b64encode(md5).decode()}


def bucket(scene: Scene, project: str, body: Mapping[str, Any]) -> Document:
    """A new bucket."""
    location = str(body.get("location") or "US").upper()
    at = short_timestamp(scene.now)
    shown: Document = {
        "kind": "storage#bucket",
        "id": body["name"],
        "name": body["name"],
        "selfLink": f"{LINK}storage/v1/b/{body['name']}",
        "projectNumber": project_number(project),
        "location": location,
        "locationType": location_type(location, body),
        "storageClass": "STANDARD",
        "generation": str(new_generation(scene)),
        "metageneration": "1",
        "timeCreated": at,
        "updated": at,
        "softDeletePolicy": {"retentionDurationSeconds": str(SOFT_DELETE_S), "effectiveTime": at},
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": False},
            "publicAccessPrevention": "inherited",
        },
    }
    shown.update({field: body[field] for field in BUCKET_FIELDS if body.get(field) is not None})
    shown["softDeletePolicy"] = {"effectiveTime": at, **shown["softDeletePolicy"]}
    return settled(scene, {}, {**shown, "etag": etag(shown["generation"], "1")})


def settled(scene: Scene, before: Mapping[str, Any], shown: Document) -> Document:
    """The bucket with what follows from its settings; raises where uniform access, once locked, is to end."""
    configuration = shown.get("iamConfiguration") or {}
    access = configuration.get("uniformBucketLevelAccess") or {}
    locked = ((before.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}).get("lockedTime")
    on = bool((access or configuration.get("bucketPolicyOnly") or {}).get("enabled"))
    if locked and not on and parse_timestamp(locked) <= scene.now:
        raise refuse("storage.invalid", problem="Cannot disable uniform bucket-level access once it is locked.")
    lock = {"lockedTime": locked or short_timestamp(scene.now + LOCKING_S)} if on else {}
    shown["iamConfiguration"] = {
        "bucketPolicyOnly": {"enabled": on, **lock},
        "uniformBucketLevelAccess": {"enabled": on, **lock},
        "publicAccessPrevention": configuration.get("publicAccessPrevention") or "inherited",
    }
    shown["softDeletePolicy"] = _texts(shown.get("softDeletePolicy") or {})
    return shown


def location_type(location: str, body: Mapping[str, Any]) -> str:
    """Region, dual-region or multi-region."""
    if location in DUAL_REGIONS or body.get("customPlacementConfig"):
        return "dual-region"
    return "multi-region" if location in MULTI_REGIONS else "region"


def object_document(
    scene: Scene, names: tuple[str, str], data: bytes, hashed: Mapping[str, str], given: Mapping[str, Any]
) -> Document:
    """A new generation of the object (bucket, name), with the bytes' hashes and the metadata given."""
    bucket_name, name = names
    generation = str(new_generation(scene))
    at = short_timestamp(scene.now)
    path = f"b/{bucket_name}/o/{quote(name, safe='')}"
    shown: Document = {
        "kind": "storage#object",
        "id": f"{bucket_name}/{name}/{generation}",
        "selfLink": f"{LINK}storage/v1/{path}",
        "mediaLink": f"{LINK}download/storage/v1/{path}?generation={generation}&alt=media",
        "name": name,
        "bucket": bucket_name,
        "generation": generation,
        "metageneration": "1",
        "contentType": "application/octet-stream",
        "storageClass": "STANDARD",
        "size": str(len(data)),
        **hashed,
        "etag": etag(generation, 1),
        "timeCreated": at,
        "updated": at,
        "timeStorageClassUpdated": at,
        "timeFinalized": at,
    }
    shown.update({field: given[field] for field in OBJECT_FIELDS if given.get(field) is not None})
    return shown


def touched(scene: Scene, shown: Mapping[str, Any], changes: Mapping[str, Any], fields: tuple[str, ...]) -> Document:
    """The document with changed metadata: null deletes, maps merge, the metageneration rises."""
    document = dict(shown)
    for field in fields:
        if field not in changes:
            continue
        merged = _merged(document.get(field), changes[field])
        document.pop(field, None)
        if merged is not None:
            document[field] = merged
    document["metageneration"] = str(int(shown["metageneration"]) + 1)
    document["updated"] = short_timestamp(scene.now)
    document["etag"] = etag(document["generation"], document["metageneration"])
    return document


def _merged(before: Any, change: Any) -> Any:
    if not isinstance(change, Mapping) or not isinstance(before, Mapping):
        return change
    merged = {**before, **change}
    return {key: _merged(before.get(key), value) for key, value in merged.items() if value is not None}


def _texts(policy: Mapping[str, Any]) -> Document:
    """The policy with its 64-bit numbers as strings, as the JSON API writes them."""
    return {key: str(value) if isinstance(value, int) else value for key, value in policy.items()}
