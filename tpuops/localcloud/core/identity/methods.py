"""OAuth's and the metadata server's paths, and the cloud's own below `/_cloud/`. Data only."""

from __future__ import annotations

from tpuops.localcloud.core import admin
from tpuops.localcloud.core.identity import (
    access,
    delegation,
    federation,
    iap,
    metadata,
    oslogin,
    projects,
    services,
    signatures,
    tokens,
)
from tpuops.localcloud.core.routes import Route

_ACCOUNT = "/iam/v1/projects/{project}/serviceAccounts/{email}"
_METADATA = "/m/{machine}/computeMetadata/v1"
_SERVICE = "/serviceusage/v1/projects/{project}/services/{api}"
_LOGIN_KEY = "/oslogin/v1/users/{user}/sshPublicKeys/{key}"
_PROJECT = "/resourcemanager/v1/projects/{project}"
METHODS = (
    Route("GET", "/serviceusage/v1/projects/{project}/services", "serviceusage.services.list", services.listing),
    Route("GET", _SERVICE, "serviceusage.services.get", services.get),
    Route("POST", f"{_SERVICE}:enable", "serviceusage.services.enable", services.enable, "for all projects at once"),
    Route("POST", f"{_SERVICE}:disable", "serviceusage.services.disable", services.disable, "for all projects at once"),
    Route(
        "POST",
        "/serviceusage/v1/projects/{project}/services:batchEnable",
        "serviceusage.services.batchEnable",
        services.batch_enable,
    ),
    Route("GET", "/serviceusage/v1/operations/{operation}", "serviceusage.operations.get", services.operation),
    Route("GET", _PROJECT, "resourcemanager.projects.get", projects.get, "any project exists"),
    Route("POST", f"{_PROJECT}:getIamPolicy", "resourcemanager.projects.getIamPolicy", projects.get_policy),
    Route("POST", f"{_PROJECT}:setIamPolicy", "resourcemanager.projects.setIamPolicy", projects.set_policy),
    Route(
        "POST",
        f"{_PROJECT}:testIamPermissions",
        "resourcemanager.projects.testIamPermissions",
        projects.test_permissions,
    ),
    Route("GET", "/oslogin/v1/users/{user}/loginProfile", "oslogin.users.getLoginProfile", oslogin.profile),
    Route(
        "POST",
        "/oslogin/v1/users/{user}:importSshPublicKey",
        "oslogin.users.importSshPublicKey",
        oslogin.import_key,
    ),
    Route("PATCH", _LOGIN_KEY, "oslogin.sshPublicKeys.patch", oslogin.patch_key),
    Route("DELETE", _LOGIN_KEY, "oslogin.sshPublicKeys.delete", oslogin.delete_key),
    Route("GET", iap.CONNECT, "iap.tunnelInstances.accessViaIAP", iap.connect, "a relay that broke off is not resumed"),
    Route("POST", "/token", "identity.token", tokens.token, "an account without a registered key is believed"),
    Route("GET", "/tokeninfo", "identity.tokeninfo", tokens.tokeninfo),
    Route("POST", "/tokeninfo", "identity.tokeninfo", tokens.tokeninfo),
    Route("POST", f"{_ACCOUNT}:getIamPolicy", "iam.serviceAccounts.getIamPolicy", delegation.get_policy),
    Route("POST", f"{_ACCOUNT}:setIamPolicy", "iam.serviceAccounts.setIamPolicy", delegation.set_policy),
    Route(
        "POST",
        f"{_ACCOUNT}:testIamPermissions",
        "iam.serviceAccounts.testIamPermissions",
        delegation.test_permissions,
    ),
    Route("POST", "/sts/v1/token", "identity.exchange", federation.exchange, "any subject token is believed"),
    Route(
        "POST",
        "/iamcredentials/v1/projects/-/serviceAccounts/{email}:generateAccessToken",
        "iamcredentials.serviceAccounts.generateAccessToken",
        federation.generate,
    ),
    Route("GET", "/m/{machine}", "metadata.ping", metadata.ping),
    Route("GET", "/m/{machine}/", "metadata.ping", metadata.ping),
    Route("PUT", f"{_METADATA}/instance/guest-attributes/{{path:path}}", "metadata.put", metadata.put_guest),
    Route("GET", f"{_METADATA}/", "metadata.get", metadata.get),
    Route("GET", f"{_METADATA}/oslogin/users", "metadata.osLoginUsers", oslogin.users),
    Route("GET", f"{_METADATA}/oslogin/authorize", "metadata.osLoginAuthorize", oslogin.authorize),
    Route("GET", f"{_METADATA}/{{path:path}}", "metadata.get", metadata.get),
    Route("GET", "/_cloud/status", "cloud.status", admin.status),
    Route("GET", "/_cloud/requests", "cloud.requests", admin.requests),
    Route("GET", "/_cloud/faults", "cloud.faults", admin.faults),
    Route("POST", "/_cloud/faults", "cloud.addFaults", admin.add_faults),
    Route("GET", "/_cloud/access", "cloud.access", access.show),
    Route("POST", "/_cloud/access", "cloud.setAccess", access.put),
    Route("POST", "/_cloud/keys", "cloud.registerKey", signatures.register),
    Route("POST", "/_cloud/reset", "cloud.reset", admin.reset),
)
