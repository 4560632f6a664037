"""Lifecycle rules of a bucket: what they match, and the look that is taken at its objects now and then.

As Google documents it (https://cloud.google.com/storage/docs/lifecycle): all conditions of a rule must hold; Delete
wins over SetStorageClass, and the colder class over the warmer; a live object of a bucket with versioning becomes
noncurrent, any other is deleted as soft delete says; what is held or retained stays; what is softly deleted is never
touched. Actions come late, by a day at most: `Profile.lifecycle_s` says how often somebody looks.

AbortIncompleteMultipartUpload is believed and has nothing to do: multipart uploads are the XML API's, which is not
served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tpuops.localcloud.core.draw import parse_timestamp, short_timestamp
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.storage import protection, shape, versions
from tpuops.localcloud.core.world import Document

DAY_S = 86_400.0
LOOK = "storage.lifecycle"
MOST_RULES = 100
CLASSES = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE")
"""From the warmest to the coldest, which costs least at rest. Objects move in this direction only."""
UPLOADS_ONLY = frozenset({"age", "matchesPrefix", "matchesSuffix"})

Shown = Mapping[str, Any]


def _days_after(field: str) -> Callable[[Any, Shown, int, float], bool]:
    return lambda days, shown, _, now: field in shown and parse_timestamp(shown[field]) + days * DAY_S <= now


def _before(field: str) -> Callable[[Any, Shown, int, float], bool]:
    return lambda date, shown, *_: field in shown and parse_timestamp(shown[field]) < parse_timestamp(date)


CONDITIONS: Mapping[str, Callable[[Any, Shown, int, float], bool]] = {
    "age": _days_after("timeCreated"),
    "createdBefore": _before("timeCreated"),
    "customTimeBefore": _before("customTime"),
    "daysSinceCustomTime": _days_after("customTime"),
    "daysSinceNoncurrentTime": _days_after("timeDeleted"),
    "noncurrentTimeBefore": _before("timeDeleted"),
    "isLive": lambda live, shown, *_: live == ("timeDeleted" not in shown),
    "numNewerVersions": lambda least, _, newer, __: bool(newer >= least),
    "matchesPrefix": lambda prefixes, shown, *_: shown["name"].startswith(tuple(prefixes)),
    "matchesSuffix": lambda suffixes, shown, *_: shown["name"].endswith(tuple(suffixes)),
    "matchesStorageClass": lambda classes, shown, *_: shown["storageClass"] in classes,
}
"""Whether a condition holds, given its value, the object, how many newer generations there are, and the time."""
DATES = frozenset({"createdBefore", "customTimeBefore", "noncurrentTimeBefore"})
LISTS = frozenset({"matchesPrefix", "matchesSuffix", "matchesStorageClass"})


def check(bucket: Mapping[str, Any]) -> None:
    """Raise where the bucket's rules are none."""
    rules = rules_of(bucket)
    if len(rules) > MOST_RULES:
        raise refuse("storage.invalid", problem=f"A lifecycle configuration may have at most {MOST_RULES} rules.")
    for rule in rules:
        problem = _problem(rule.get("action") or {}, rule.get("condition") or {})
        if problem:
            raise refuse("storage.invalid", problem=problem)


def rules_of(bucket: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The rules, or none."""
    return (bucket.get("lifecycle") or {}).get("rule") or ()


def watch(scene: Scene, bucket: Mapping[str, Any]) -> None:
    """Look at the bucket's objects after a while, if it has rules; only once, however often this is said."""
    scene.cancel(LOOK, bucket=bucket["name"])
    if rules_of(bucket):
        scene.later(max(1.0, scene.profile.lifecycle_s * scene.profile.scale), LOOK, bucket=bucket["name"])


def forget(scene: Scene, bucket: str) -> None:
    """The bucket is gone."""
    scene.cancel(LOOK, bucket=bucket)


def look(scene: Scene, timer: Document) -> None:
    """Do with each object what the rules say, and look again later."""
    bucket = scene.world.get("storage.bucket", timer["bucket"])
    if bucket is None:
        return
    for kind, key, stored, newer in list(_generations(scene, bucket["name"])):
        action = chosen(rules_of(bucket), stored["shown"], newer, scene.now)
        if action == "Delete":
            _delete(scene, bucket, kind, key, stored)
        elif action:
            _move(scene, kind, key, stored, action)
    watch(scene, bucket)


def chosen(rules: Sequence[Mapping[str, Any]], shown: Shown, newer: int, now: float) -> str:
    """`Delete`, the storage class the object is to have, or nothing."""
    actions = [rule["action"] for rule in rules if _matches(rule["condition"], shown, newer, now)]
    if any(action["type"] == "Delete" for action in actions):
        return "Delete"
    wanted = [_rank(action["storageClass"]) for action in actions if action["type"] == "SetStorageClass"]
    return CLASSES[max(wanted)] if wanted and max(wanted) > _rank(shown["storageClass"]) else ""


def _matches(condition: Mapping[str, Any], shown: Shown, newer: int, now: float) -> bool:
    return all(CONDITIONS[name](value, shown, newer, now) for name, value in condition.items())


def _rank(storage_class: str) -> int:
    """How cold a class is; the historical ones (REGIONAL and the like) are as warm as STANDARD."""
    return CLASSES.index(storage_class) if storage_class in CLASSES else 0


def _generations(scene: Scene, bucket: str) -> Iterator[tuple[str, str, Document, int]]:
    """Kind, key, document, and number of newer generations of all that rules may touch."""
    live = [(shape.OBJECT, key, stored) for key, stored in scene.world.items(shape.OBJECT, f"{bucket}/")]
    old = [(versions.OLD, key, stored) for key, stored in versions.noncurrent(scene, bucket)]
    newest_first = sorted([*live, *old], key=lambda entry: -int(entry[2]["shown"]["generation"]))
    seen: dict[str, int] = {}
    for kind, key, stored in newest_first:
        name = stored["shown"]["name"]
        yield kind, key, stored, seen.get(name, 0)
        seen[name] = seen.get(name, 0) + 1


def _delete(scene: Scene, bucket: Document, kind: str, key: str, stored: Document) -> None:
    if protection.hindrance(bucket, stored["shown"], scene.now) is not None:
        return
    if kind == versions.OLD:
        versions.remove(scene, bucket["name"], stored)
        return
    versions.retire(scene, bucket["name"], stored)
    scene.world.drop(kind, key)


def _move(scene: Scene, kind: str, key: str, stored: Document, storage_class: str) -> None:
    changed = shape.touched(scene, stored["shown"], {"storageClass": storage_class}, ("storageClass",))
    changed["timeStorageClassUpdated"] = short_timestamp(scene.now)
    scene.world.put(kind, key, {**stored, "shown": changed})


def _problem(action: Mapping[str, Any], condition: Mapping[str, Any]) -> str:
    kind = action.get("type")
    if not condition:
        return "A lifecycle rule must have at least one condition."
    if kind == "SetStorageClass" and action.get("storageClass") not in CLASSES:
        return f"Invalid storage class in a lifecycle rule: '{action.get('storageClass', '')}'."
    if kind not in {"Delete", "SetStorageClass", "AbortIncompleteMultipartUpload"}:
        return f"Invalid action type in a lifecycle rule: '{kind or ''}'."
    known = UPLOADS_ONLY if kind == "AbortIncompleteMultipartUpload" else CONDITIONS.keys()
    wrong = sorted(name for name, value in condition.items() if name not in known or not _fits(name, value))
    return f"Invalid condition in a lifecycle rule: '{wrong[0]}'." if wrong else ""


def _fits(name: str, value: Any) -> bool:
    if name in DATES:
        try:
            return len(value) == len("2013-01-15") and parse_timestamp(value) is not None
        except (TypeError, ValueError):
            return False
    if name in LISTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if name == "isLive":
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


ACTIONS: Mapping[str, Action] = {LOOK: look}
