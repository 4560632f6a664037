"""What keeps objects from being deleted, overwritten or shown to everybody: holds, retention, uniform access.

Facts: the documentation of object holds, retention policies, uniform bucket-level access and public access prevention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuops.localcloud.core.draw import parse_timestamp, short_timestamp
from tpuops.localcloud.core.refusals import Refusal, refuse
from tpuops.localcloud.core.scene import Call

EVERYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})


def hindrance(bucket: Mapping[str, Any], shown: Mapping[str, Any], now: float) -> Refusal | None:
    """Why this generation can be neither deleted nor overwritten at `now`, or None."""
    words = {"bucket": shown["bucket"], "object": shown["name"]}
    for field, kind in (("temporaryHold", "Temporary"), ("eventBasedHold", "Event-Based")):
        if shown.get(field):
            return refuse("storage.held", kind=kind, **words)
    period_s = float((bucket.get("retentionPolicy") or {}).get("retentionPeriod") or 0)
    end = parse_timestamp(shown["timeCreated"]) + period_s
    return refuse("storage.retained", until=short_timestamp(end), **words) if end > now else None


def check(call: Call, shown: Mapping[str, Any]) -> None:
    """Raise where this generation may be neither deleted nor overwritten."""
    bucket = call.world.get("storage.bucket", shown["bucket"])
    refusal = hindrance(bucket, shown, call.now) if bucket else None
    if refusal is not None:
        raise refusal


def check_acl(call: Call, bucket: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise where access lists are given for an object although its bucket knows only IAM."""
    uniform = bucket["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"]
    asked = given.get("acl") or {"predefinedAcl", "destinationPredefinedAcl"} & call.query.keys()
    if uniform and asked:
        raise refuse("storage.uniform")


def check_members(bucket: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    """Raise where a policy lets everybody in although the bucket prevents that."""
    members = {member for binding in policy.get("bindings", []) for member in binding.get("members", [])}
    if bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced" and members & EVERYBODY:
        raise refuse("storage.public")
