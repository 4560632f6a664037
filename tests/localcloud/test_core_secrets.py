"""Secret Manager in virtual time: versions, the one call that hands a value out, and who may make it."""

import base64

import pytest

from tests.localcloud.talk import Talk
from tests.localcloud.test_core_access import enforced, info

SECRETS = "/secretmanager/v1/projects/local-p/secrets"
TOKEN = f"{SECRETS}/token"


def payload(text: str) -> dict:
    return {"payload": {"data": base64.b64encode(text.encode()).decode()}}


@pytest.fixture
def stored():
    """A secret with two versions."""
    talk = Talk()
    assert talk.call("POST", SECRETS, {"replication": {"automatic": {}}}, secretId="token")[0] == 200
    for text in ("old", "new"):
        assert talk.call("POST", f"{TOKEN}:addVersion", payload(text))[0] == 200
    return talk


@pytest.mark.parametrize(("version", "text"), [("1", "old"), ("2", "new"), ("latest", "new")])
def test_a_version_is_handed_out_by_number_or_as_the_latest(stored, version, text):
    status, reply = stored.call("GET", f"{TOKEN}/versions/{version}:access")
    assert (status, base64.b64decode(reply["payload"]["data"])) == (200, text.encode())
    assert reply["name"].endswith(f"/secrets/token/versions/{1 if text == 'old' else 2}")


def test_only_access_tells_the_value(stored):
    for path in (SECRETS, TOKEN, f"{TOKEN}/versions", f"{TOKEN}/versions/1"):
        status, reply = stored.call("GET", path)
        assert status == 200
        assert base64.b64encode(b"old").decode() not in str(reply)


@pytest.mark.parametrize("path", ["/nothing/versions/1", "/token/versions/3", "/token/versions/0", "/token/versions/x"])
def test_what_is_not_there_is_404(stored, path):
    status, reply = stored.call("GET", f"{SECRETS}{path}:access")
    assert (status, reply["error"]["status"]) == (404, "NOT_FOUND")
    assert "not found or has no versions" in reply["error"]["message"]


def test_a_disabled_version_is_kept_back_until_it_is_enabled(stored):
    stored.call("POST", f"{TOKEN}/versions/2:disable", {})
    status, reply = stored.call("GET", f"{TOKEN}/versions/latest:access")
    assert (status, reply["error"]["status"]) == (400, "FAILED_PRECONDITION")
    stored.call("POST", f"{TOKEN}/versions/2:enable", {})
    assert stored.call("GET", f"{TOKEN}/versions/latest:access")[0] == 200


def test_a_second_of_the_name_is_refused_and_a_deleted_one_is_gone(stored):
    assert stored.call("POST", SECRETS, {}, secretId="token")[0] == 409
    for wrong in ({"data": "!"}, {**payload("x")["payload"], "dataCrc32c": "1"}):
        assert stored.call("POST", f"{TOKEN}:addVersion", {"payload": wrong})[0] == 400
    assert stored.call("DELETE", TOKEN)[0] == 200
    assert stored.call("GET", f"{TOKEN}/versions/1:access")[0] == 404


@pytest.mark.parametrize(
    ("role", "status"),
    [
        ("roles/secretmanager.secretAccessor", 404),
        ("roles/secretmanager.admin", 404),
        ("roles/owner", 404),
        ("roles/editor", 403),
        ("roles/viewer", 403),
    ],
)
def test_only_an_accessor_learns_even_whether_it_is_there(role, status):
    _, ask = enforced([role])
    found, reply, _ = ask("GET", f"{TOKEN}/versions/latest:access")
    assert found == status, reply
    if status == 403:
        assert info(reply)["metadata"]["permission"] == "secretmanager.versions.access"


def test_the_narrower_scopes_do_not_open_it():
    for scope in ("cloud-platform.read-only", "compute", "devstorage.full_control"):
        _, ask = enforced(["roles/owner"], [f"https://www.googleapis.com/auth/{scope}"])
        assert ask("GET", f"{TOKEN}/versions/latest:access")[0] == 403
