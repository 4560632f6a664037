"""The generated clients inside gcloud call all that is served of the APIs whose own libraries are no dependency."""

from __future__ import annotations

import base64
from functools import partial

from tests.localcloud.every_method.sdk import Sdk

PROJECT = "projects/local-tests"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFXRSfLfVfJx0v0Wc0bYyWl4b6z5n8bY1oT7k1l2m3n4 me"


def call_all(sdk: Sdk) -> None:
    """Call them."""
    _services(sdk)
    _accounts(sdk)
    _project(sdk)
    _login(sdk)
    _secrets(sdk)


def _services(sdk: Sdk) -> None:
    usage = partial(sdk, "serviceusage/v1")
    name = f"{PROJECT}/services/tpu.googleapis.com"
    assert usage("services.Disable", name=name, disableServiceRequest={})["done"]
    assert usage("services.Get", name=name)["state"] == "DISABLED"
    begun = usage("services.Enable", name=name, enableServiceRequest={})
    assert usage("operations.Get", name=begun["name"])["done"]
    ids = {"serviceIds": ["tpu.googleapis.com", "compute.googleapis.com"]}
    usage("services.BatchEnable", parent=PROJECT, batchEnableServicesRequest=ids)
    assert usage("services.List", parent=PROJECT, filter="state:ENABLED")["services"]
    parent = f"{PROJECT}/locations/global/services/tpu.googleapis.com"
    quotas = sdk("cloudquotas/v1", "projects_locations_services_quotaInfos.List", parent=parent)["quotaInfos"]
    assert [quota["quotaId"] for quota in quotas] == ["TPUV4PodPerProjectPerZoneForTPUAPI"]


def _accounts(sdk: Sdk) -> None:
    def iam(method: str, **request: object) -> dict[str, object]:
        return dict(sdk("iam/v1", f"projects_serviceAccounts.{method}", **request))

    wanted = {"accountId": "robot-1", "serviceAccount": {"displayName": "Robot"}}
    made = iam("Create", name=PROJECT, createServiceAccountRequest=wanted)
    name = made["name"]
    assert iam("Get", name=name) == made
    binding = {"role": "roles/iam.serviceAccountUser", "members": ["user:me@example.org"]}
    policy = {"bindings": [binding], "etag": iam("GetIamPolicy", resource=name)["etag"]}
    assert iam("SetIamPolicy", resource=name, setIamPolicyRequest={"policy": policy})["bindings"] == [binding]
    asked = {"permissions": ["iam.serviceAccounts.actAs"]}
    assert iam("TestIamPermissions", resource=name, testIamPermissionsRequest=asked) == asked
    scopes = {"scope": ["https://www.googleapis.com/auth/cloud-platform"]}
    token = sdk(
        "iamcredentials/v1",
        "projects_serviceAccounts.GenerateAccessToken",
        name=f"projects/-/serviceAccounts/{made['email']}",
        generateAccessTokenRequest=scopes,
    )
    assert token["accessToken"]
    assert iam("Delete", name=name) == {}


def _project(sdk: Sdk) -> None:
    manager = partial(sdk, "cloudresourcemanager/v1")
    assert manager("projects.Get", projectId="local-tests")["lifecycleState"] == "ACTIVE"
    before = manager("projects.GetIamPolicy", resource="local-tests", getIamPolicyRequest={})
    binding = {"role": "roles/viewer", "members": ["user:me@example.org"]}
    policy = {"version": 1, "bindings": [binding], "etag": before["etag"]}
    after = manager("projects.SetIamPolicy", resource="local-tests", setIamPolicyRequest={"policy": policy})
    assert after["bindings"] == [binding]
    asked = {"permissions": ["tpu.nodes.create"]}
    assert manager("projects.TestIamPermissions", resource="local-tests", testIamPermissionsRequest=asked) == asked


def _login(sdk: Sdk) -> None:
    login = partial(sdk, "oslogin/v1")
    user = "users/me@example.org"
    profile = login("users.ImportSshPublicKey", parent=user, sshPublicKey={"key": KEY})["loginProfile"]
    keys = {each["value"]["name"] for each in _pairs(profile["sshPublicKeys"])}
    assert _pairs(login("users.GetLoginProfile", name=user)["sshPublicKeys"])
    [key] = keys
    end = {"expirationTimeUsec": "4000000000000000"}
    assert login("users_sshPublicKeys.Patch", name=key, updateMask="expirationTimeUsec", sshPublicKey=end)["key"] == KEY
    assert login("users_sshPublicKeys.Delete", name=key) == {}


def _pairs(keys: object) -> list[dict[str, dict[str, str]]]:
    """The entries of a map, which the generated clients give as a map or as a list of pairs."""
    if isinstance(keys, dict):
        return [{"value": value} for value in keys.values()]
    return list(keys)  # type: ignore[call-overload]


def _secrets(sdk: Sdk) -> None:
    secrets = partial(sdk, "secretmanager/v1")
    name = f"{PROJECT}/secrets/s1"
    wanted = {"replication": {"automatic": {}}, "labels": {"a": "b"}}
    made = secrets("projects_secrets.Create", parent=PROJECT, secretId="s1", secret=wanted)
    assert [each["name"] for each in secrets("projects_secrets.List", parent=PROJECT)["secrets"]] == [made["name"]]
    assert secrets("projects_secrets.Get", name=name) == made
    payload = {"data": base64.b64encode(b"value").decode()}
    first = secrets("projects_secrets.AddVersion", parent=name, addSecretVersionRequest={"payload": payload})["name"]
    versions = "projects_secrets_versions"
    found = secrets(f"{versions}.Access", name=f"{name}/versions/latest")
    assert base64.b64decode(found["payload"]["data"]) == b"value"
    assert secrets(f"{versions}.Disable", name=first, disableSecretVersionRequest={})["state"] == "DISABLED"
    assert secrets(f"{versions}.Enable", name=first, enableSecretVersionRequest={})["state"] == "ENABLED"
    assert [each["name"] for each in secrets(f"{versions}.List", parent=name)["versions"]] == [first]
    assert secrets(f"{versions}.Get", name=first)["name"] == first
    assert secrets("projects_secrets.Delete", name=name) == {}
