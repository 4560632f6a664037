"""Who may act as a service account: the account's own IAM policy, beside that of its project."""

from __future__ import annotations

from collections.abc import Iterator

from tpuops.localcloud.core.draw import fingerprint
from tpuops.localcloud.core.identity import access, permissions
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

KIND = access.ACCOUNT_POLICY


def get_policy(call: Call) -> Answer:
    """POST v1/projects/P/serviceAccounts/E:getIamPolicy."""
    return _shown(call)


def set_policy(call: Call) -> Answer:
    """POST v1/projects/P/serviceAccounts/E:setIamPolicy, guarded by the policy's etag."""
    policy = call.body().get("policy") or {}
    if policy.get("etag") not in {None, "", _shown(call)["etag"]}:
        raise refuse("access.etag")
    call.world.put(KIND, call.params["email"], {"bindings": policy.get("bindings", [])})
    return _shown(call)


def test_permissions(call: Call) -> Answer:
    """POST v1/projects/P/serviceAccounts/E:testIamPermissions: those of the asked ones that the caller has."""
    asked = [str(name) for name in call.body().get("permissions", [])]
    if access.rules(call.world).get("enforce"):
        caller = access.caller_of(call)
        held = list(_held(call, caller.email)) if caller else []
        asked = [name for name in asked if permissions.grants(held, name)]
    return {"permissions": asked} if asked else {}


def _held(call: Call, email: str) -> Iterator[str]:
    yield from access.held_by(call.world, email, call.params["project"])
    yield from access.held_on_account(call.world, email, call.params["email"])


def _shown(call: Call) -> Document:
    kept = call.world.get(KIND, call.params["email"]) or {"bindings": []}
    return {**({"bindings": kept["bindings"]} if kept["bindings"] else {}), "etag": fingerprint(kept)}
