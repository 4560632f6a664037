"""Preconditions and the one-write-a-second rule: the parts of Cloud Storage that locks are made of.

Evaluated before anything changes. A failed one is 412, or 304 for the not-match kinds on reads (google-cloud.md 4.6).
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.world import Document

MATCHES = (
    ("ifGenerationMatch", "generation", True),
    ("ifGenerationNotMatch", "generation", False),
    ("ifMetagenerationMatch", "metageneration", True),
    ("ifMetagenerationNotMatch", "metageneration", False),
)


def check(query: Mapping[str, str], shown: Mapping[str, str] | None, *, reading: bool, source: bool = False) -> None:
    """Raise unless all preconditions in the query hold for an object, or for its absence (generation 0).

    `source` reads the parameters of a copy's source (`ifSourceGenerationMatch`).
    """
    for parameter, field, must_equal in MATCHES:
        asked = query.get(parameter.replace("if", "ifSource", 1) if source else parameter)
        if asked is None:
            continue
        if not asked.isdigit():
            raise refuse("storage.invalid", problem=f"Invalid argument: {parameter}={asked}")
        found = int(shown[field]) if shown else 0
        if (found == int(asked)) == must_equal:
            continue
        raise refuse("storage.unchanged" if reading and not must_equal else "storage.condition")


def check_rate(call: Call, bucket: str, name: str) -> None:
    """Raise the recorded 429 where the same name was written too recently; off in the `instant` profile."""
    rate = call.scene.profile.object_writes_per_s
    if rate <= 0:
        return
    key = f"{bucket}/{name}"
    last: Document = call.world.get("storage.write", key) or {"at": 0.0}
    if call.now - last["at"] < 1.0 / rate:
        raise refuse("storage.rate", bucket=bucket, object=name)
    call.world.put("storage.write", key, {"at": call.now})
