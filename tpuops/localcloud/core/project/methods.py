"""Which path reaches which function of a project's surroundings. Data only."""

from __future__ import annotations

from tpuops.localcloud.core.project import accounts, quotas, settings
from tpuops.localcloud.core.routes import Route

_ACCOUNTS = "/iam/v1/projects/{project}/serviceAccounts"
METHODS = (
    Route(
        "GET",
        "/cloudquotas/v1/projects/{project}/locations/global/services/{api}/quotaInfos",
        "cloudquotas.quotaInfos.list",
        quotas.listing,
        "only what is limited is listed",
    ),
    Route("POST", _ACCOUNTS, "iam.serviceAccounts.create", accounts.create),
    Route("GET", f"{_ACCOUNTS}/{{email}}", "iam.serviceAccounts.get", accounts.get, "any account is there"),
    Route("DELETE", f"{_ACCOUNTS}/{{email}}", "iam.serviceAccounts.delete", accounts.delete),
    Route("GET", "/_cloud/project", "cloud.project", settings.show),
    Route("POST", "/_cloud/project", "cloud.setProject", settings.put),
)
