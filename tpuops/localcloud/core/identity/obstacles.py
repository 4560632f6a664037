"""What stands in a call's way before anybody asks who calls: billing, places that are closed, the quota project.

Three more fields of `POST /_cloud/access`, all optional:
    unbilled: [local-p]             projects without a billing account
    zones: {us-central2-b: LOCATION_POLICY_VIOLATED}    places that are closed, and by which reason
    quota_project: true             a person's login must say which project its calls count for, as the TPU API wants
Facts: google-cloud.md 1.6, 5.7, 5.8.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Call
from tpuops.localcloud.core.world import Document

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
HEADER = "x-goog-user-project"
WANTS_QUOTA_PROJECT = frozenset({"tpu", "serviceusage"})
GCLOUDS_OWN_PROJECT = "projects/764086051850"
"""Whose quota a person's login uses where it names no project."""


def info(reason: str, metadata: Mapping[str, str], domain: str = "googleapis.com") -> Document:
    """An ErrorInfo."""
    return {"@type": ERROR_INFO, "reason": reason, "domain": domain, "metadata": dict(metadata)}


def check(call: Call, rules: Document, api: str, project: str) -> None:
    """Raise the first of them that stands in the way."""
    zone = call.params.get("zone", "")
    if project in rules.get("unbilled", ()) and not api.startswith(("serviceusage", "cloudresourcemanager")):
        number = project_number(project)
        metadata = {"consumer": f"projects/{number}", "service": api}
        raise refuse("access.billing", (info("BILLING_DISABLED", metadata),), number=number)
    if zone in rules.get("zones", {}):
        metadata = {"consumer": f"projects/{project}", "location": zone, "service": api}
        raise refuse("access.zone", (info(rules["zones"][zone], metadata),), zone=zone)


def check_quota_project(call: Call, rules: Document, api: str, email: str) -> None:
    """Raise where a person's login must name a project and does not."""
    wanted = rules.get("quota_project") and api.partition(".")[0] in WANTS_QUOTA_PROJECT
    if wanted and is_person(email) and not call.request.headers.get(HEADER):
        metadata = {"consumer": GCLOUDS_OWN_PROJECT, "service": api}
        raise refuse("access.quota-project", (info("SERVICE_DISABLED", metadata),), service=api)


def is_person(email: str) -> bool:
    """Whether this is nobody's service account and no federated principal."""
    return not email.endswith("gserviceaccount.com") and not email.startswith("principal")
