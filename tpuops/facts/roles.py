"""Which roles a person needs to run tpuops, which the machines need, and what for: data, and how to look it up.

Facts: google-cloud.md 4.11, 4.12, 5.8. `permissions` are those that tpuops itself uses, each by its name in IAM.
"""

from __future__ import annotations

from dataclasses import dataclass

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True, slots=True)
class Role:
    """A predefined role, what it is for, and what tpuops uses of it."""

    name: str
    why: str
    permissions: tuple[str, ...]


OPERATOR = (
    Role(
        "roles/tpu.admin",
        "makes, looks at and deletes TPUs",
        (
            "tpu.acceleratortypes.list",
            "tpu.runtimeversions.list",
            "tpu.nodes.create",
            "tpu.nodes.delete",
            "tpu.nodes.get",
            "tpu.nodes.list",
            "tpu.nodes.start",
            "tpu.nodes.stop",
            "tpu.nodes.update",
            "tpu.operations.get",
        ),
    ),
    Role(
        "roles/compute.instanceAdmin.v1",
        "makes, looks at and deletes the VM, and reads the project's number",
        (
            "compute.disks.create",
            "compute.instances.create",
            "compute.instances.delete",
            "compute.instances.get",
            "compute.instances.list",
            "compute.instances.setLabels",
            "compute.instances.setMetadata",
            "compute.machineTypes.get",
            "compute.projects.get",
            "compute.subnetworks.use",
            "compute.subnetworks.useExternalIp",
            "compute.zoneOperations.get",
        ),
    ),
    Role(
        "roles/iam.serviceAccountUser",
        "gives the machines their service account",
        ("iam.serviceAccounts.actAs",),
    ),
    Role(
        "roles/storage.admin",
        "makes the bucket, keeps lock, records and outputs in it",
        (
            "storage.buckets.create",
            "storage.buckets.get",
            "storage.objects.create",
            "storage.objects.delete",
            "storage.objects.get",
            "storage.objects.list",
        ),
    ),
    Role(
        "roles/serviceusage.serviceUsageConsumer",
        "has calls counted for the project, and sees which APIs are on",
        ("serviceusage.services.get", "serviceusage.services.list", "serviceusage.services.use"),
    ),
)
"""What `up`, `train`, `fetch` and `down` need on the project, and nothing more."""

PRIVATE = {
    "os-login": Role(
        "roles/compute.osAdminLogin",
        "logs in to the machines by OS Login",
        ("compute.instances.osAdminLogin",),
    ),
    "iap": Role(
        "roles/iap.tunnelResourceAccessor",
        "reaches the machines through Identity-Aware Proxy",
        ("iap.tunnelInstances.accessViaIAP",),
    ),
}
"""What a person needs beside those, by how machines are logged in to and reached."""


def operator(login: str, reach: str) -> tuple[Role, ...]:
    """The roles that a person needs, by `ssh.login` and `ssh.reach` of the environment."""
    return (*OPERATOR, *(PRIVATE[way] for way in (login, reach) if way in PRIVATE))


FURTHER = (
    Role("roles/serviceusage.serviceUsageAdmin", "switches APIs on", ("serviceusage.services.enable",)),
    Role(
        "roles/iam.serviceAccountTokenCreator",
        "acts as a service account",
        ("iam.serviceAccounts.getAccessToken",),
    ),
)
"""What only a repair, or a login by impersonation, needs."""


def holding(permission: str) -> Role | None:
    """The least of these roles that holds a permission: by its own list, else by the kind of thing it is about."""
    roles = (*OPERATOR, *PRIVATE.values(), *FURTHER)
    exact = next((role for role in roles if permission in role.permissions), None)
    kind = permission.rpartition(".")[0]
    return exact or next((role for role in roles if any(_kind(one) == kind for one in role.permissions)), None)


def _kind(permission: str) -> str:
    return permission.rpartition(".")[0]


def grant(role: str, member: str, project: str) -> str:
    """The command by which a project's owner gives a role."""
    return f"gcloud projects add-iam-policy-binding {project} --member={member} --role={role}"
