"""Buckets: insert, get, list, patch, delete, IAM policy, and the project's storage service account."""

from __future__ import annotations

from tpuops.localcloud.core.draw import fingerprint, project_number
from tpuops.localcloud.core.identity import access
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.storage import conditions, lifecycle, protection, shape, versions
from tpuops.localcloud.core.world import Document

KIND = "storage.bucket"


def insert(call: Call) -> Answer:
    """POST b?project=P."""
    body = call.body()
    name = str(body.get("name") or "")
    project = call.query.get("project", "")
    if not project:
        raise refuse("storage.required", field="project")
    if not shape.BUCKET_NAME.match(name) or name.startswith("goog") or "google" in name:
        raise refuse("storage.invalid", problem=f"Invalid bucket name: '{name}'")
    there = call.world.get(KIND, name)
    if there is not None:
        raise refuse("storage.owned" if there["projectNumber"] == project_number(project) else "storage.taken")
    return _kept(call, shape.bucket(call.scene, project, body))


def get(call: Call) -> Answer:
    """GET b/B."""
    shown = existing(call)
    conditions.check(call.query, shown, reading=True)
    return shown


def listing(call: Call) -> Answer:
    """GET b?project=P."""
    project = call.query.get("project", "")
    if not project:
        raise refuse("storage.required", field="project")
    number = project_number(project)
    found = (
        (name, shown)
        for name, shown in call.world.items(KIND, call.query.get("prefix", ""))
        if shown["projectNumber"] == number
    )
    size = page_size(call.query.get("maxResults", ""), 1000)
    chosen, token = page(found, size, call.query.get("pageToken", ""))
    reply: Document = {"kind": "storage#buckets"}
    if chosen:
        reply["items"] = [shown for _, shown in chosen]
    return {**reply, "nextPageToken": token} if token else reply


def patch(call: Call) -> Answer:
    """PATCH b/B: the fields given; location and name never change."""
    shown = existing(call)
    conditions.check(call.query, shown, reading=False)
    body = call.body()
    changed = shape.touched(call.scene, shown, body, shape.BUCKET_FIELDS)
    if "softDeletePolicy" in body:
        changed["softDeletePolicy"]["effectiveTime"] = changed["updated"]
    return _kept(call, shape.settled(call.scene, shown, changed))


def update(call: Call) -> Answer:
    """PUT b/B: as patch, but the settings that are not given are cleared or as in a new bucket."""
    shown = existing(call)
    conditions.check(call.query, shown, reading=False)
    fresh = shape.bucket(call.scene, shown["projectNumber"], {**call.body(), "name": shown["name"]})
    fixed = ("location", "locationType", "storageClass", "generation", "metageneration", "timeCreated")
    kept = {**fresh, **{field: shown[field] for field in fixed}}
    changed = shape.touched(call.scene, kept, {}, ())
    return _kept(call, shape.settled(call.scene, shown, changed))


def _kept(call: Call, shown: Document) -> Document:
    """The bucket as it is to be from now on, if it may be so."""
    lifecycle.check(shown)
    keep_s = float(shown["softDeletePolicy"].get("retentionDurationSeconds") or 0)
    if keep_s and not shape.SOFT_DELETE_S <= keep_s <= shape.LONGEST_SOFT_DELETE_S:
        raise refuse("storage.invalid", problem="The soft delete retention must be 0, or 7 to 90 days.")
    lifecycle.watch(call.scene, shown)
    return call.world.put(KIND, shown["name"], shown)


def delete(call: Call) -> Answer:
    """DELETE b/B: only an empty one."""
    shown = existing(call)
    conditions.check(call.query, shown, reading=False)
    if next(call.world.items("storage.object", f"{shown['name']}/"), None) is not None:
        raise refuse("storage.not-empty")
    if next(versions.noncurrent(call, shown["name"]), None) is not None:
        raise refuse("storage.not-empty")
    versions.forget(call, shown["name"])
    lifecycle.forget(call.scene, shown["name"])
    call.world.drop(KIND, shown["name"])
    call.world.drop("storage.policy", shown["name"])
    return {}


def layout(call: Call) -> Answer:
    """GET b/B/storageLayout: what gcloud asks before it copies or removes."""
    shown = existing(call)
    kept = {key: shown[key] for key in ("location", "locationType")}
    return {"kind": "storage#storageLayout", "bucket": shown["name"], **kept}


def folders(call: Call) -> Answer:
    """GET b/B/managedFolders and b/B/folders: there are none."""
    existing(call)
    return {"kind": f"storage#{call.method.split('.')[1]}"}


def get_policy(call: Call) -> Answer:
    """GET b/B/iam."""
    name = existing(call)["name"]
    policy: Document = call.world.get("storage.policy", name) or {"version": 1, "bindings": []}
    return _policy(name, policy)


def set_policy(call: Call) -> Answer:
    """PUT b/B/iam: read, modify, write, guarded by the policy's etag. IAM is recorded, not enforced."""
    name = existing(call)["name"]
    before: Document = call.world.get("storage.policy", name) or {"version": 1, "bindings": []}
    body = call.body()
    if body.get("etag") not in {None, "", _policy(name, before)["etag"]}:
        raise refuse("storage.condition")
    protection.check_members(existing(call), body)
    policy = {"version": body.get("version", 1), "bindings": body.get("bindings", [])}
    policy["serial"] = int(before.get("serial", 0)) + 1
    return _policy(name, call.world.put("storage.policy", name, policy))


def test_permissions(call: Call) -> Answer:
    """GET b/B/iam/testPermissions?permissions=P: those of the asked ones that the caller has."""
    name = existing(call)["name"]
    asked = [one for one in call.query.get("permissions", "").split(",") if one]
    kept = [one for one in asked if access.may(call, one)]
    shown: Document = {"kind": "storage#testIamPermissionsResponse"}
    return {**shown, "permissions": kept} if kept and name else shown


def service_account(call: Call) -> Answer:
    """GET projects/P/serviceAccount: the agent through which Storage acts; its address tells the project's number."""
    number = project_number(call.params["project"])
    address = f"service-{number}@gs-project-accounts.iam.gserviceaccount.com"
    return {"kind": "storage#serviceAccount", "email_address": address}


def existing(call: Call) -> Document:
    """The bucket of the call. Raises where it does not exist."""
    shown = call.world.get(KIND, call.params["bucket"])
    if shown is None:
        raise refuse("storage.no-bucket")
    return shown


def _policy(name: str, policy: Document) -> Document:
    shown = {key: policy[key] for key in ("version", "bindings")}
    tag = fingerprint([name, policy])
    return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{name}", **shown, "etag": tag}
