"""Which scope and which permission a method needs, and what the common roles grant: data, and how to look it up.

Facts: google-cloud.md 3.1.2, 4.10 to 4.12, 5.8. Permission names follow the methods' where nothing else was seen; roles
are cut down to the services that are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

_AUTH = "https://www.googleapis.com/auth/"
_ANY = frozenset({f"{_AUTH}cloud-platform"})
_READ = frozenset({f"{_AUTH}cloud-platform.read-only"})
_VERBS = {"insert": "create", "patch": "update", "aggregatedList": "list", "wait": "get", "cancelUpload": "create"}
_OWN_NAMES: Mapping[str, str] = {
    "compute.imageFamilyViews.get": "compute.images.getFromFamily",
    "storage.objects.compose": "storage.objects.create",
    "storage.objects.copy": "storage.objects.create",
    "storage.objects.rewrite": "storage.objects.create",
    "storage.objects.restore": "storage.objects.create",
    "storage.buckets.getStorageLayout": "storage.buckets.get",
    "storage.serviceAccount.get": "resourcemanager.projects.get",
    "serviceusage.services.batchEnable": "serviceusage.services.enable",
    "serviceusage.operations.get": "serviceusage.services.get",
    "cloudquotas.quotaInfos.list": "cloudquotas.quotas.get",
}
ACT_AS = "iam.serviceAccounts.actAs"
USE = "serviceusage.services.use"
ATTACHING = frozenset({"tpu.nodes.create", "tpu.queuedResources.create", "compute.instances.insert"})
"""Methods that attach a service account, for which the caller needs `ACT_AS` (google-cloud.md 4.12)."""
OPEN = frozenset(
    {
        "resourcemanager.projects.testIamPermissions",
        "storage.buckets.testIamPermissions",
        "iam.serviceAccounts.testIamPermissions",
        "oslogin.users.getLoginProfile",
        "oslogin.users.importSshPublicKey",  # a profile is its user's own
        "oslogin.sshPublicKeys.patch",
        "oslogin.sshPublicKeys.delete",
        "iamcredentials.serviceAccounts.generateAccessToken",  # asks for its permission itself
    }
)
"""Methods that need a scope but no permission."""

ROLES: Mapping[str, tuple[str, ...]] = {
    # Patterns of permissions; one that begins with `-` takes away.
    "roles/owner": ("*",),
    "roles/editor": ("*", "-*.setIamPolicy", "-secretmanager.versions.access"),
    "roles/viewer": ("*.get", "*.list", "*.getFromFamily", "-storage.objects.*"),
    "roles/tpu.admin": ("tpu.*", "resourcemanager.projects.get"),
    "roles/tpu.viewer": ("tpu.*.get", "tpu.*.list"),
    "roles/compute.instanceAdmin.v1": (
        *("compute.*", "resourcemanager.projects.get"),
        *("-compute.firewalls.*", "-compute.routers.*", "-compute.subnetworks.setPrivateIpGoogleAccess"),
    ),
    "roles/compute.networkAdmin": ("compute.networks.*", "compute.subnetworks.*", "compute.routers.*"),
    "roles/compute.securityAdmin": ("compute.firewalls.*", "compute.networks.get", "compute.networks.list"),
    "roles/cloudquotas.viewer": ("cloudquotas.quotas.get",),
    "roles/iam.serviceAccountAdmin": ("iam.serviceAccounts.get", "iam.serviceAccounts.create"),
    "roles/compute.osLogin": ("compute.instances.osLogin",),
    "roles/compute.osAdminLogin": ("compute.instances.osLogin", "compute.instances.osAdminLogin"),
    "roles/iap.tunnelResourceAccessor": ("iap.tunnelInstances.accessViaIAP",),
    "roles/compute.viewer": ("compute.*.get", "compute.*.list", "compute.images.getFromFamily"),
    "roles/storage.admin": ("storage.*", "resourcemanager.projects.get"),
    "roles/storage.objectAdmin": ("storage.objects.*", "storage.folders.*", "storage.managedFolders.*"),
    "roles/storage.objectUser": ("storage.objects.*", "storage.folders.*", "storage.managedFolders.*"),
    "roles/storage.objectCreator": ("storage.objects.create",),
    "roles/storage.objectViewer": ("storage.objects.get", "storage.objects.list", "storage.*olders.list"),
    "roles/storage.legacyBucketReader": ("storage.buckets.get", "storage.objects.list"),
    "roles/storage.legacyBucketWriter": (
        "storage.buckets.get",
        "storage.objects.list",
        "storage.objects.create",
        "storage.objects.delete",
    ),
    "roles/storage.legacyBucketOwner": (
        "storage.buckets.get",
        "storage.buckets.update",
        "storage.buckets.*IamPolicy",
        "storage.objects.list",
        "storage.objects.create",
        "storage.objects.delete",
    ),
    "roles/iam.serviceAccountUser": (ACT_AS,),
    "roles/secretmanager.secretAccessor": ("secretmanager.versions.access",),
    "roles/secretmanager.admin": ("secretmanager.*", "resourcemanager.projects.get"),
    "roles/iam.serviceAccountTokenCreator": ("iam.serviceAccounts.getAccessToken",),
    "roles/serviceusage.serviceUsageConsumer": ("serviceusage.services.get", "serviceusage.services.list", USE),
    "roles/serviceusage.serviceUsageAdmin": ("serviceusage.*",),
    "roles/resourcemanager.projectIamAdmin": ("resourcemanager.projects.*IamPolicy",),
}


def permission(method: str) -> str:
    """The permission a method needs."""
    if method in _OWN_NAMES:
        return _OWN_NAMES[method]
    service, collection, verb = method.split(".", 2)
    return f"{service}.{collection.lower() if service == 'tpu' else collection}.{_VERBS.get(verb, verb)}"


def scopes(method: str, *, mutating: bool) -> frozenset[str]:
    """The scopes of which a method needs one."""
    service, collection, _ = method.split(".", 2)
    if service == "tpu":
        return _ANY | {f"{_AUTH}cloud.tpu"}
    if service == "compute":
        return _ANY | {f"{_AUTH}compute"} | (frozenset() if mutating else {f"{_AUTH}compute.readonly"})
    if service == "secretmanager":
        return _ANY
    if service != "storage":
        return _ANY if mutating else _ANY | _READ
    full = _ANY | {f"{_AUTH}devstorage.full_control"}
    if method.endswith("IamPolicy"):
        return full
    written = full | {f"{_AUTH}devstorage.read_write"}
    if mutating and collection == "buckets" and method.endswith("patch"):
        return full
    return written if mutating else written | {f"{_AUTH}devstorage.read_only"} | _READ


def grants(held: Iterable[str], wanted: str) -> bool:
    """Whether roles, permissions or patterns of permissions include the one that is wanted."""
    return any(_covers(ROLES.get(one, () if one.startswith("roles/") else (one,)), wanted) for one in held)


def _covers(patterns: Iterable[str], wanted: str) -> bool:
    covered = False
    for pattern in patterns:
        if fnmatchcase(wanted, pattern.removeprefix("-")):
            covered = not pattern.startswith("-")
    return covered
