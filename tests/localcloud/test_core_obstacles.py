"""What stands in a call's way beside IAM, and identities that are exchanged for others, in virtual time."""

import json
from urllib.parse import urlencode

import pytest

from tests.localcloud.talk import INSTANCES, NODES
from tpuops.localcloud.core.identity import tokens
from tpuops.localcloud.core.identity.federation import EXCHANGE

AUTH = "https://www.googleapis.com/auth/"
ROBOT = "robot@local-p.iam.gserviceaccount.com"
GENERATE = f"/iamcredentials/v1/projects/-/serviceAccounts/{ROBOT}:generateAccessToken"
ACCOUNT = f"/iam/v1/projects/local-p/serviceAccounts/{ROBOT}"


def rules(talk, **fields):
    assert talk.call("POST", "/_cloud/access", fields)[0] == 200


def asked_by(talk, email, verb, path, body=None, query=None, **headers):
    token = tokens.issue(talk.core._scene(talk.now), email, [f"{AUTH}cloud-platform"])["token"]
    reply = talk.raw(verb, path, body or b"", {"authorization": f"Bearer {token}", **headers}, **(query or {}))
    return reply.status, json.loads(reply.body)


def reason(reply):
    return next(detail["reason"] for detail in reply["error"]["details"] if detail["@type"].endswith("ErrorInfo"))


def refreshed(talk, name, scope=""):
    form = {"grant_type": "refresh_token", "refresh_token": name, **({"scope": scope} if scope else {})}
    return talk.call("POST", "/token", urlencode(form).encode())


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"unbilled": ["local-p"]}, "BILLING_DISABLED"),
        ({"zones": {"us-central1-a": "LOCATION_ORG_POLICY_VIOLATED"}}, "LOCATION_ORG_POLICY_VIOLATED"),
    ],
)
def test_an_obstacle_stands_in_the_way_of_its_own_only(talk, fields, wanted):
    rules(talk, **fields)
    status, reply = talk.call("GET", NODES)
    assert (status, reason(reply)) == (403, wanted)
    elsewhere = {"unbilled": NODES.replace("local-p", "local-q"), "zones": NODES.replace("central1-a", "central1-b")}
    assert talk.call("GET", elsewhere[next(iter(fields))])[0] == 200


def test_a_persons_login_must_say_which_project_its_calls_count_for(talk):
    rules(talk, quota_project=True)
    status, reply = asked_by(talk, "ada@x", "GET", NODES)
    assert (status, reason(reply)) == (403, "SERVICE_DISABLED")
    assert reply["error"]["details"][0]["metadata"]["consumer"] == "projects/764086051850"
    assert asked_by(talk, "ada@x", "GET", NODES, **{"x-goog-user-project": "local-p"})[0] == 200
    assert asked_by(talk, "ada@x", "GET", INSTANCES)[0] == 200
    assert asked_by(talk, ROBOT, "GET", NODES)[0] == 200
    rules(talk, enforce=True, bindings={"ada@x": ["roles/tpu.admin"]})
    status, reply = asked_by(talk, "ada@x", "GET", NODES, **{"x-goog-user-project": "local-p"})
    assert (status, reason(reply)) == (403, "USER_PROJECT_DENIED")


def test_a_refresh_token_is_whose_it_is_said_to_be(talk):
    rules(talk, logins={"one": {"email": "ada@x", "scopes": [f"{AUTH}compute"]}, "two": {"error": "invalid_grant"}})
    token = refreshed(talk, "one")[1]["access_token"]
    info = json.loads(talk.raw("POST", "/tokeninfo", b"", {"authorization": f"Bearer {token}"}).body)
    assert (info["email"], info["scope"]) == ("ada@x", f"{AUTH}compute")
    status, reply = refreshed(talk, "one", f"{AUTH}cloud-platform")
    assert (status, reply["error"]) == (400, "invalid_scope")
    assert refreshed(talk, "two") == (400, {"error": "invalid_grant", "error_description": "Bad Request"})
    assert refreshed(talk, "three")[0] == 200


def test_a_foreign_token_is_exchanged_where_its_provider_is(talk):
    rules(talk, pools=["//iam/pools/ci/providers/hub"])
    form = {"grant_type": EXCHANGE, "subject_token": "opaque", "scope": f"{AUTH}cloud-platform"}
    status, reply = talk.call("POST", "/sts/v1/token", urlencode({**form, "audience": "other"}).encode())
    assert (status, reply["error"]) == (400, "invalid_target")
    good = talk.call("POST", "/sts/v1/token", urlencode({**form, "audience": "//iam/pools/ci/providers/hub"}).encode())
    info = talk.call("GET", "/tokeninfo", access_token=good[1]["access_token"])[1]
    assert "email" not in info


def test_who_may_act_as_an_account_is_said_by_its_project_or_by_itself(talk):
    rules(talk, enforce=True, bindings={"ada@x": [], "bob@x": ["roles/iam.serviceAccountTokenCreator"]})
    assert asked_by(talk, "ada@x", "POST", GENERATE, {"scope": []})[0] == 403
    status, reply = asked_by(talk, "bob@x", "POST", GENERATE, {"scope": [f"{AUTH}compute"]})
    assert (status, talk.call("GET", "/tokeninfo", access_token=reply["accessToken"])[1]["email"]) == (200, ROBOT)
    body = {"permissions": ["iam.serviceAccounts.actAs", "iam.serviceAccounts.get"]}
    assert asked_by(talk, "ada@x", "POST", f"{ACCOUNT}:testIamPermissions", body) == (200, {})
    rules(talk, enforce=False)
    policy = {"bindings": [{"role": "roles/iam.serviceAccountUser", "members": ["user:ada@x"]}]}
    assert talk.call("POST", f"{ACCOUNT}:setIamPolicy", {"policy": policy})[0] == 200
    stale = talk.call("POST", f"{ACCOUNT}:setIamPolicy", {"policy": {**policy, "etag": "old"}})
    assert stale[0] == 409
    rules(talk, enforce=True)
    assert (
        "iam.serviceAccounts.actAs"
        in asked_by(talk, "ada@x", "POST", f"{ACCOUNT}:testIamPermissions", body)[1]["permissions"]
    )
    node = {"acceleratorType": "v3-8", "runtimeVersion": "r", "serviceAccount": {"email": ROBOT}}
    rules(talk, bindings={"ada@x": ["roles/tpu.admin"]})
    assert asked_by(talk, "ada@x", "POST", NODES, node, {"nodeId": "n1"})[0] == 200
    del node["serviceAccount"]  # then it is the project's default one, whose policy names nobody
    assert asked_by(talk, "ada@x", "POST", NODES, node, {"nodeId": "n2"})[0] == 403
