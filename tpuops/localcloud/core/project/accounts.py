"""IAM v1's service accounts: looked up, made, deleted. Any account is there until `settings` names the only ones."""

from __future__ import annotations

import re

from tpuops.localcloud.core.draw import default_account, project_number
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

KIND = "iam.account"
ACCOUNT_ID = re.compile(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])")


def get(call: Call) -> Answer:
    """GET v1/projects/P/serviceAccounts/E."""
    return _existing(call)


def create(call: Call) -> Answer:
    """POST v1/projects/P/serviceAccounts."""
    body = call.body()
    name, project = str(body.get("accountId") or ""), call.params["project"]
    if not ACCOUNT_ID.fullmatch(name):
        raise refuse("iam.argument")
    email = f"{name}@{project}.iam.gserviceaccount.com"
    if call.world.get(KIND, email) is not None or email in settings.of(call.world).get("accounts", ()):
        raise refuse("iam.exists", name=name)
    shown = {**_shown(project, email), "displayName": (body.get("serviceAccount") or {}).get("displayName", "")}
    return call.world.put(KIND, email, shown)


def delete(call: Call) -> Answer:
    """DELETE v1/projects/P/serviceAccounts/E."""
    call.world.drop(KIND, _existing(call)["email"])
    return {}


def _existing(call: Call) -> Document:
    project, email = call.params["project"], call.params["email"]
    made, only = call.world.get(KIND, email), settings.of(call.world).get("accounts")
    if made is not None:
        return made
    if only is not None and email not in only and email != default_account(project):
        raise refuse("iam.absent", project=project, email=email)
    return _shown(project, email)


def _shown(project: str, email: str) -> Document:
    return {
        "name": f"projects/{project}/serviceAccounts/{email}",
        "projectId": project,
        "uniqueId": project_number(email),
        "email": email,
    }
