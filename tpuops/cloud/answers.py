"""The many shapes of a refusal, read into one value: HTTP bodies of three services and errors of operations.

Pure. Facts: google-cloud.md 2.3, 2.4 (One Platform, google.rpc.Status), 3.3 (compute: a failed operation is HTTP 200),
4.3 (legacy JSON of storage). Judging what it means is `failures`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

CODES: Mapping[int, tuple[int, str]] = {
    1: (499, "CANCELLED"),
    2: (500, "UNKNOWN"),
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    6: (409, "ALREADY_EXISTS"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    10: (409, "ABORTED"),
    11: (400, "OUT_OF_RANGE"),
    12: (501, "UNIMPLEMENTED"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    15: (500, "DATA_LOSS"),
    16: (401, "UNAUTHENTICATED"),
}
"""google.rpc.Code to HTTP status and canonical name (googleapis google/rpc/code.proto)."""

_EID = re.compile(r"\s*\[EID: 0x[0-9a-f]+\]")


@dataclass(frozen=True, slots=True)
class Answer:
    """One refusal. `late`: it came from an operation that had been admitted. `status` 0: no answer came at all.

    `text` keeps Google's incident id; `message` is without it, for comparing. `quota`: a QuotaFailure was attached.
    `retry_after_s`: how long the service asks us to stay away, 0 where it does not say.
    """

    status: int
    text: str
    reason: str = ""
    name: str = ""
    late: bool = False
    quota: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float = 0.0

    @property
    def message(self) -> str:
        """The text in one line, without `[EID: ...]`."""
        return " ".join(_EID.sub("", self.text).split())


def of_http(status: int, body: bytes | str, retry_after: str = "") -> Answer:
    """An HTTP reply that is not a success, with its header Retry-After: seconds; as a date, it is not looked at."""
    error = _error_of(body)
    found = (
        Answer(status, error or f"HTTP {status}") if isinstance(error, str) else _of_status(status, error, late=False)
    )
    return replace(found, retry_after_s=float(retry_after) if retry_after.strip().isdecimal() else 0.0)


def of_operation(code: int, message: str, details: Sequence[Mapping[str, Any]] = ()) -> Answer:
    """A TPU operation's `error` (google.rpc.Status)."""
    status, name = CODES.get(code, (500, f"code {code}"))
    return _of_status(status, {"message": message, "status": name, "details": details}, late=True)


def of_compute(errors: Sequence[Mapping[str, Any]], http_status: int, http_message: str) -> Answer:
    """A compute operation's `error.errors` with its HTTP facts: the first error that has a code decides."""
    first = next((error for error in errors if error.get("code")), {})
    text = "; ".join(str(error["message"]) for error in errors if error.get("message"))
    return Answer(http_status or 500, text or http_message or "the operation failed", first.get("code", ""), late=True)


def no_answer(text: str) -> Answer:
    """The connection broke or nobody replied in time; the call may have been carried out."""
    return Answer(0, text)


def _error_of(body: bytes | str) -> Mapping[str, Any] | str:
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        parsed = json.loads(text)
    except ValueError:
        return text.strip()[:500]
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else text
    return error if isinstance(error, Mapping | str) else text[:500]


def _of_status(status: int, error: Mapping[str, Any], *, late: bool) -> Answer:
    details = _mappings(error.get("details"))
    info = next((detail for detail in details if _kind(detail) == "ErrorInfo"), {})
    legacy = next(iter(_mappings(error.get("errors"))), {})
    metadata = info.get("metadata")
    return Answer(
        status=status,
        text=str(error.get("message") or f"HTTP {status}"),
        reason=str(info.get("reason") or legacy.get("reason") or ""),
        name=str(error.get("status") or ""),
        late=late,
        quota=any(_kind(detail) == "QuotaFailure" for detail in details),
        metadata={str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, Mapping) else {},
    )


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; a proxy's own error page may be JSON of any shape."""
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list | tuple) else []


def _kind(detail: Mapping[str, Any]) -> str:
    return str(detail.get("@type", "")).rpartition(".")[2]
