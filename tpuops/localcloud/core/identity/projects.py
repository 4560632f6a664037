"""Resource Manager, v1: a project's record and its IAM policy, which access.py enforces where it is told to."""

from __future__ import annotations

from collections.abc import Iterator

from tpuops.localcloud.core.draw import default_account, fingerprint, project_number
from tpuops.localcloud.core.identity import access, permissions
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

KIND = "iam.policy"


def get(call: Call) -> Answer:
    """GET v1/projects/P: any project exists."""
    project = call.params["project"]
    return {
        "projectNumber": project_number(project),
        "projectId": project,
        "name": project,
        "lifecycleState": "ACTIVE",
        "createTime": "2020-01-01T00:00:00.000Z",
    }


def get_policy(call: Call) -> Answer:
    """POST v1/projects/P:getIamPolicy."""
    return _shown(call.params["project"], _stored(call))


def set_policy(call: Call) -> Answer:
    """POST v1/projects/P:setIamPolicy: read, modify, write, guarded by the policy's etag."""
    policy = call.body().get("policy") or {}
    before = _shown(call.params["project"], _stored(call))
    if policy.get("etag") not in {None, "", before["etag"]}:
        raise refuse("access.etag")
    kept = {"version": policy.get("version", 1), "bindings": policy.get("bindings", [])}
    return _shown(call.params["project"], call.world.put(KIND, call.params["project"], kept))


def test_permissions(call: Call) -> Answer:
    """POST v1/projects/P:testIamPermissions: those of the asked ones that the caller has; all where nothing counts."""
    asked = [str(name) for name in call.body().get("permissions", [])]
    if access.rules(call.world).get("enforce"):
        caller = access.caller_of(call)
        held = access.held_by(call.world, caller.email, call.params["project"]) if caller else []
        asked = [name for name in asked if permissions.grants(held, name)]
    return {"permissions": asked} if asked else {}


def _stored(call: Call) -> Document:
    """The policy; until one was set it shows what counts without one: everything, and what `access` binds."""
    stored = call.world.get(KIND, call.params["project"])
    return stored or {"version": 1, "bindings": list(_unset(call))}


def _unset(call: Call) -> Iterator[Document]:
    rules = access.rules(call.world)
    if not rules.get("enforce"):
        yield _binding("roles/editor", default_account(call.params["project"]))
    for email, held in rules.get("bindings", {}).items():
        yield from (_binding(role, email) for role in held if role.startswith("roles/"))


def _binding(role: str, email: str) -> Document:
    kind = "serviceAccount" if email.endswith(".gserviceaccount.com") else "user"
    return {"role": role, "members": [f"{kind}:{email}"]}


def _shown(project: str, policy: Document) -> Document:
    shown = {key: policy[key] for key in ("version", "bindings") if policy[key]}
    return {**shown, "etag": fingerprint([project, policy])}
