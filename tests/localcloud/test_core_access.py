"""Scopes and IAM as two filters, APIs that are off, and projects that are nobody's, in virtual time."""

import json

import pytest

from tests.localcloud.talk import COMPUTE, INSTANCES, NODES, Talk, instance
from tpuops.localcloud.core.identity import access, permissions, tokens
from tpuops.localcloud.core.table import ROUTES
from tpuops.localcloud.core.wire import Request
from tpuops.localcloud.core.wordings import TABLE

AUTH = "https://www.googleapis.com/auth/"
V3 = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
SERVICES = "/serviceusage/v1/projects/local-p/services"


def rules(talk, **fields):
    assert talk.call("POST", "/_cloud/access", fields)[0] == 200


def enforced(held=(), scopes=(f"{AUTH}cloud-platform",), email="me@x"):
    """A core that enforces, and how `email` asks it."""
    talk = Talk()
    rules(talk, enforce=True, bindings={email: list(held)})
    token = tokens.issue(talk.core._scene(talk.now), email, scopes)["token"]

    def ask(verb, path, body=None, **query):
        headers = {"authorization": f"Bearer {token}"}
        reply = talk.raw(verb, path, b"" if body is None else body, headers, **query)
        return reply.status, json.loads(reply.body) if reply.body else None, reply.headers

    return talk, ask


def info(reply):
    return next(detail for detail in reply["error"]["details"] if detail["@type"].endswith("ErrorInfo"))


def test_nothing_is_asked_until_it_is_enforced(talk):
    assert talk.call("GET", NODES)[0] == 200
    rules(talk, bindings={"me@x": []})
    assert talk.call("GET", NODES)[0] == 200


def test_without_a_token_or_with_a_dead_one_it_is_401(talk):
    rules(talk, enforce=True)
    status, reply = talk.call("GET", NODES)
    assert (status, info(reply)["reason"]) == (401, "CREDENTIALS_MISSING")
    dead = talk.raw("GET", NODES, b"", {"authorization": "Bearer ya29.gone"})
    assert (dead.status, info(json.loads(dead.body))["reason"]) == (401, "ACCESS_TOKEN_EXPIRED")


@pytest.mark.parametrize(
    ("scope", "verb", "path", "status"),
    [
        ("devstorage.read_only", "GET", NODES, 403),
        ("cloud.tpu", "GET", NODES, 200),
        ("compute.readonly", "GET", INSTANCES, 200),
        ("compute.readonly", "DELETE", f"{INSTANCES}/vm1", 403),
        ("compute", "DELETE", f"{INSTANCES}/vm1", 404),
        ("devstorage.read_only", "GET", "/storage/v1/b/bkt", 404),
        ("devstorage.read_only", "DELETE", "/storage/v1/b/bkt/o/x", 403),
        ("devstorage.read_write", "DELETE", "/storage/v1/b/bkt/o/x", 404),
        ("devstorage.read_write", "GET", "/storage/v1/b/bkt/iam", 403),
        ("devstorage.full_control", "GET", "/storage/v1/b/bkt/iam", 404),
        ("cloud-platform.read-only", "GET", SERVICES, 200),
    ],
)
def test_a_scope_is_enough_for_its_methods_alone(scope, verb, path, status):
    _, ask = enforced(["roles/owner"], [AUTH + scope])
    found, reply, headers = ask(verb, path)
    assert found == status, reply
    if status == 403:
        assert reply["error"]["message"] == TABLE["access.scope"].text
        assert info(reply)["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
        assert 'error="insufficient_scope"' in headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("role", "allowed", "denied"),
    [
        ("roles/viewer", ("GET", NODES), ("DELETE", f"{NODES}/n1")),
        ("roles/tpu.admin", ("DELETE", f"{NODES}/n1"), ("GET", INSTANCES)),
        ("roles/compute.instanceAdmin.v1", ("GET", INSTANCES), ("GET", NODES)),
        ("roles/storage.objectViewer", ("GET", "/storage/v1/b/bkt/o/x"), ("DELETE", "/storage/v1/b/bkt/o/x")),
        ("roles/storage.legacyBucketReader", ("GET", "/storage/v1/b/bkt/o"), ("GET", "/storage/v1/b/bkt/o/x")),
        ("roles/serviceusage.serviceUsageConsumer", ("GET", SERVICES), ("POST", f"{SERVICES}/x:enable")),
        ("tpu.nodes.list", ("GET", NODES), ("GET", f"{NODES}/n1")),
        ("roles/nobody-knows", None, ("GET", NODES)),
    ],
)
def test_a_role_grants_what_it_grants(role, allowed, denied):
    _, ask = enforced([role])
    if allowed:
        assert ask(*allowed)[0] in {200, 404}
    status, reply, _ = ask(*denied)
    assert (status, info(reply)["reason"], info(reply)["domain"]) == (
        403,
        "IAM_PERMISSION_DENIED",
        "iam.googleapis.com",
    )
    assert info(reply)["metadata"]["permission"] in reply["error"]["message"]


def test_both_filters_count():
    for held, scopes in ((["roles/owner"], [f"{AUTH}logging.write"]), ([], [f"{AUTH}cloud-platform"])):
        _, ask = enforced(held, scopes)
        assert ask("POST", NODES, V3, nodeId="n1")[0] == 403


@pytest.mark.parametrize(
    ("role", "verb", "path", "body", "query"),
    [
        ("roles/tpu.admin", "POST", NODES, V3, {"nodeId": "n1"}),
        ("roles/compute.instanceAdmin.v1", "POST", INSTANCES, instance("vm1"), {}),
    ],
)
def test_attaching_an_account_needs_the_right_to_act_as_it(role, verb, path, body, query):
    _, ask = enforced([role])
    status, reply, _ = ask(verb, path, body, **query)
    assert (status, info(reply)["metadata"]["permission"]) == (403, "iam.serviceAccounts.actAs")
    _, ask = enforced([role, "roles/iam.serviceAccountUser"])
    assert ask(verb, path, body, **query)[0] == 200


def test_a_buckets_own_policy_counts_for_that_bucket_and_overwriting_is_deleting():
    talk, ask = enforced(["roles/storage.objectCreator"])
    talk.world.put("cloud", "access", {**access.rules(talk.world), "enforce": False})
    talk.bucket()
    binding = {"role": "roles/storage.objectViewer", "members": ["user:me@x"]}
    talk.call("PUT", "/storage/v1/b/bkt/iam", {"bindings": [binding]})
    rules(talk, enforce=True)
    upload = ("POST", "/upload/storage/v1/b/bkt/o", b"x")
    assert ask(*upload, uploadType="media", name="a")[0] == 200
    assert ask("GET", "/storage/v1/b/bkt/o/a")[0] == 200
    status, reply, _ = ask(*upload, uploadType="media", name="a")
    assert (status, info(reply)["metadata"]["permission"]) == (403, "storage.objects.delete")


def test_a_projects_policy_is_read_modified_written_and_enforced():
    _, ask = enforced(["roles/resourcemanager.projectIamAdmin"])
    path = "/resourcemanager/v1/projects/local-p"
    policy = ask("POST", f"{path}:getIamPolicy")[1]
    assert ask("GET", NODES)[0] == 403
    bound = {**policy, "bindings": [{"role": "roles/tpu.viewer", "members": ["user:me@x"]}]}
    assert ask("POST", f"{path}:setIamPolicy", {"policy": bound})[0] == 200
    assert ask("POST", f"{path}:setIamPolicy", {"policy": bound})[0] == 409
    assert ask("GET", NODES)[0] == 200
    wanted = {"permissions": ["tpu.nodes.get", "tpu.nodes.delete"]}
    assert ask("POST", f"{path}:testIamPermissions", wanted)[1] == {"permissions": ["tpu.nodes.get"]}


def test_a_disabled_api_answers_as_googles_does_and_enabling_takes_effect_late(talk):
    rules(talk, disabled=["tpu.googleapis.com"], enable_delay_s=30)
    status, reply = talk.call("GET", NODES)
    assert (status, info(reply)["reason"], info(reply)["metadata"]["service"]) == (
        403,
        "SERVICE_DISABLED",
        "tpu.googleapis.com",
    )
    assert "has not been used in project" in reply["error"]["message"]
    assert talk.call("GET", f"{SERVICES}/tpu.googleapis.com")[1]["state"] == "DISABLED"
    assert talk.call("POST", f"{SERVICES}/tpu.googleapis.com:enable", {})[1]["done"] is True
    assert talk.call("GET", f"{SERVICES}/tpu.googleapis.com")[1]["state"] == "ENABLED"
    assert talk.call("GET", NODES)[0] == 403
    talk.wait(31)
    assert talk.call("GET", NODES)[0] == 200
    talk.call("POST", f"{SERVICES}/compute.googleapis.com:disable", {})
    status, reply = talk.call("GET", INSTANCES)
    assert (status, reply["error"]["errors"][0]["reason"]) == (403, "accessNotConfigured")
    listed = talk.call("GET", SERVICES, filter="state:DISABLED")[1]["services"]
    assert [service["config"]["name"] for service in listed] == ["compute.googleapis.com"]
    body = {"serviceIds": ["compute.googleapis.com"]}
    assert talk.call("POST", f"{SERVICES}:batchEnable", body)[0] == 200
    assert talk.call("GET", f"{SERVICES}/unheard.googleapis.com")[0] == 403


def test_a_project_that_is_not_there_is_403_and_not_404(talk):
    rules(talk, projects=["local-p"])
    status, reply = talk.call("GET", COMPUTE.replace("local-p", "local-q"))
    assert (status, info(reply)["reason"]) == (403, "CONSUMER_INVALID")
    assert talk.call("GET", COMPUTE)[0] == 200


def test_a_projects_number_stands_for_its_id(talk):
    talk.node()
    number = talk.call("GET", "/compute/v1/projects/local-p")[1]["id"]
    found = talk.call("GET", NODES.replace("local-p", number))[1]["nodes"]
    assert found[0]["name"].startswith("projects/local-p/")


@pytest.mark.parametrize("on", [{"method": "tpu.nodes.list"}, {"after_s": 1}])
def test_a_fault_script_can_take_rights_away(on):
    talk = Talk([{"on": on, "do": {"access": {"enforce": True}}}])
    talk.wait(2)
    assert talk.call("GET", NODES)[0] == 401
    assert talk.call("GET", "/_cloud/faults")[1]["faults"][0]["fired_at"]


def test_a_script_or_a_setting_that_means_nothing_is_refused(talk):
    assert talk.call("POST", "/_cloud/access", {"enforced": True})[0] == 400
    assert talk.call("POST", "/_cloud/faults", [{"on": {"step": 4}, "do": {"access": {}}}])[0] == 400
    assert talk.call("POST", "/_cloud/keys", {"email": "x"})[0] == 400


def test_the_user_has_the_scopes_that_were_set(talk):
    rules(talk, user_scopes=[f"{AUTH}compute"])
    token = talk.call("POST", "/token", b"grant_type=refresh_token")[1]["access_token"]
    assert talk.call("GET", "/tokeninfo", access_token=token)[1]["scope"] == f"{AUTH}compute"


def test_every_method_has_a_permission_and_scopes():
    for route in ROUTES.all:
        if route.service in access.APIS:
            assert permissions.permission(route.method).count(".") == 2
            assert permissions.scopes(route.method, mutating=route.mutating)


def test_os_login_keeps_the_keys_of_a_user(talk):
    path = "/oslogin/v1/users/me@x.org"
    assert talk.call("GET", f"{path}/loginProfile")[1]["posixAccounts"][0]["username"] == "me_x_org"
    imported = talk.call("POST", f"{path}:importSshPublicKey", {"key": "ssh-ed25519 AAAA"})[1]["loginProfile"]
    assert [key["key"] for key in imported["sshPublicKeys"].values()] == ["ssh-ed25519 AAAA"]
    assert talk.core.handle(Request("GET", "/oslogin/v1/users/me@x.org/loginProfile"), talk.now)[0].status == 200
