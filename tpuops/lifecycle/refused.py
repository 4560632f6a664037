"""What the cloud said when it last refused an environment's machines, kept in its home bucket for `diagnose --run`.

Nothing is ever decided by it: whoever wants machines asks the cloud again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from tpuops.diagnosis.verdict import ApiError
from tpuops.errors import AccessError, CloudError
from tpuops.lifecycle.site import Site

NAME = "refused.json"
"""The object in the environment's folder."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused call: when, which, and the cloud's own words."""

    at: datetime
    call: str
    error: ApiError


async def note(site: Site, error: CloudError | AccessError) -> None:
    """Keep what was said. An error without an answer of the cloud says nothing; what cannot be kept is journalled."""
    if isinstance(error, CloudError) and not error.status:
        return
    at, message = site.clock.now().isoformat(timespec="milliseconds"), " ".join((error.message, *error.evidence))
    told = {"at": at, "call": "", "status": 0, "reason": "", "message": message}
    if isinstance(error, CloudError):
        call = f"{error.method} {error.resource}".strip()
        told |= {"call": call, "status": error.status, "reason": error.reason, "message": error.message}
    try:
        await site.store.write(f"{site.prefix}{NAME}", json.dumps(told).encode(), if_generation=None)
    except (CloudError, AccessError) as problem:
        site.journal.record("evidence.incomplete", what="refusal", why=problem.message)


async def last(site: Site) -> Refusal | None:
    """What was last refused; None where nothing was, or nothing of it can be read."""
    try:
        found = await site.store.read(f"{site.prefix}{NAME}")
        told = json.loads(b"" if found is None else found.data)
        error = ApiError(int(told["status"]), str(told["reason"]), str(told["message"]))
        return Refusal(datetime.fromisoformat(told["at"]), str(told["call"]), error)
    except (CloudError, AccessError, ValueError, TypeError, KeyError):
        return None
