"""Every way the services say no: the rows of `wordings.py`, in the shape that each service wraps them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpuops.localcloud.core.wire import Reply, json_reply
from tpuops.localcloud.core.wordings import LATE, LEGACY_REASONS, STATUSES, TABLE


def late(row: str, **words: object) -> dict[str, Any]:
    """The google.rpc status of one row of the table of late failures."""
    code, text = LATE[row]
    return {"code": code, "message": text.format(**words)}


@dataclass(slots=True)
class Refusal(Exception):
    """A call answered with no. `details` are google.rpc details, carried by One Platform shapes only."""

    http: int
    status: str
    reason: str
    message: str
    details: tuple[Mapping[str, Any], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def refuse(row: str, details: tuple[Mapping[str, Any], ...] = (), **words: object) -> Refusal:
    """The refusal of one row of the table, to be raised."""
    wording = TABLE[row]
    return Refusal(wording.http, wording.status, wording.reason, wording.text.format(**words), details)


def scripted(error: Mapping[str, Any]) -> Refusal:
    """The refusal a fault script asks for; of `error`'s fields only `http` and `message` need be there."""
    http = int(error.get("http", 503))
    status = str(error.get("status", STATUSES.get(http, "UNKNOWN")))
    details = tuple(error.get("details", ()))
    if error.get("reason") and not details:
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": error["reason"],
            "domain": "googleapis.com",
        }
        details = (info,)
    headers = {"Retry-After": str(error["retry_after_s"])} if "retry_after_s" in error else {}
    return Refusal(http, status, str(error.get("reason", "")), str(error.get("message", status)), details, headers)


def error_reply(service: str, refusal: Refusal) -> Reply:
    """The refusal in the shape of its service."""
    if refusal.http == 304:
        return Reply(304, dict(refusal.headers))
    if service == "identity":
        return json_reply({"error": refusal.status, "error_description": refusal.message}, refusal.http)
    shape = _legacy if service in {"compute", "storage", "cloud", "metadata"} else _one_platform
    return json_reply({"error": shape(refusal)}, refusal.http, refusal.headers)


def _one_platform(refusal: Refusal) -> dict[str, Any]:
    error: dict[str, Any] = {
        "code": refusal.http,
        "message": refusal.message,
        "status": refusal.status or STATUSES.get(refusal.http, "UNKNOWN"),
    }
    if refusal.details:
        error["details"] = [dict(detail) for detail in refusal.details]
    return error


def _legacy(refusal: Refusal) -> dict[str, Any]:
    reason = refusal.reason or LEGACY_REASONS.get(refusal.http, "backendError")
    item = {"message": refusal.message, "domain": "global", "reason": reason}
    error: dict[str, Any] = {"code": refusal.http, "message": refusal.message, "errors": [item]}
    if refusal.details:
        error["details"] = [dict(detail) for detail in refusal.details]
    return error
