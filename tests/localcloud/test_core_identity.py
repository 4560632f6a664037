"""Tokens and the metadata server in virtual time."""

import base64
import json
from urllib.parse import urlencode

import pytest

from tests.localcloud.talk import INSTANCES, NODES, Talk
from tpuops.localcloud.core.events import Crashed, StartMachine

GOOGLE = {"metadata-flavor": "Google"}


@pytest.fixture
def inside(talk):
    """Asks the metadata server of a worker."""
    node = talk.node("n1", metadata={"ssh-keys": "me:key"})
    machine = f"{node['id']}-0"

    def ask(path, headers=GOOGLE, verb="GET", body=b"", **query):
        return talk.raw(verb, f"/m/{machine}/computeMetadata/v1/{path}", body, headers, **query)

    return ask


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("instance/name", "n1"),
        ("instance/attributes/ssh-keys", "me:key"),
        ("instance/attributes/accelerator-type", "v3-8"),
        ("instance/attributes/agent-worker-number", "0"),
        ("instance/preempted", "FALSE"),
        ("instance/maintenance-event", "NONE"),
        ("project/project-id", "local-p"),
        ("instance/service-accounts/default/scopes", "https://www.googleapis.com/auth/cloud-platform\n"),
    ],
)
def test_a_machine_learns_about_itself(inside, path, text):
    reply = inside(path)
    assert reply.status == 200
    assert reply.body.decode().startswith(text)
    assert reply.headers["Metadata-Flavor"] == "Google"


def test_without_the_header_nothing_is_told(inside):
    assert inside("instance/name", {}).status == 403
    assert inside("instance/name", {**GOOGLE, "x-forwarded-for": "1.2.3.4"}).status == 403


def test_folders_list_their_names_and_recursion_gives_json(inside):
    assert "attributes/\n" in inside("instance/").body.decode()
    account = json.loads(inside("instance/service-accounts/default/", recursive="true").body)
    assert account["email"].endswith("-compute@developer.gserviceaccount.com")
    whole = json.loads(inside("", recursive="true").body)
    assert whole["instance"]["attributes"]["accelerator-type"] == "v3-8"
    assert whole["project"]["numericProjectId"]


def test_a_token_is_the_machines_own_and_tokeninfo_knows_it(talk, inside):
    token = json.loads(inside("instance/service-accounts/default/token").body)
    again = json.loads(inside("instance/service-accounts/default/token").body)
    assert token["access_token"] == again["access_token"]
    info = talk.call("GET", "/tokeninfo", access_token=token["access_token"])[1]
    assert "https://www.googleapis.com/auth/cloud-platform" in info["scope"].split()
    talk.wait(3700)
    assert talk.call("GET", "/tokeninfo", access_token=token["access_token"])[0] == 400
    assert json.loads(inside("instance/service-accounts/default/token").body) != token


def test_waiting_for_a_change_is_held_until_it_comes(talk, inside):
    held = inside("instance/attributes/ssh-keys", wait_for_change="true")
    assert held.hold_until is not None
    etag = held.headers["ETag"]
    talk.call("PATCH", f"{NODES}/n1", {"metadata": {"ssh-keys": "you:key"}}, updateMask="metadata")
    talk.wait()
    changed = inside("instance/attributes/ssh-keys", wait_for_change="true", last_etag=etag)
    assert (changed.hold_until, changed.body) == (None, b"you:key")
    assert inside("instance/name", wait_for_change="true", timeout_sec="0").hold_until is None


def test_guest_attributes_written_inside_are_read_outside(talk, inside):
    assert inside("instance/guest-attributes/ours/done", verb="PUT", body=b"yes").status == 200
    assert inside("instance/guest-attributes/ours/done").body == b"yes"
    found = talk.call("POST", f"{NODES}/n1:getGuestAttributes", {"queryPath": "ours/"})[1]
    assert found["guestAttributes"][0]["queryValue"]["items"][0]["value"] == "yes"


def test_a_machine_that_does_not_run_has_no_metadata(talk, inside):
    talk.call("POST", f"{NODES}/n1:stop", {})
    assert inside("instance/name").status == 404


def test_an_instance_without_an_account_has_no_token(talk):
    vm = talk.vm("vm1", serviceAccounts=[])
    path = f"/m/{vm['id']}/computeMetadata/v1/instance/service-accounts/default/token"
    assert talk.raw("GET", path, headers=GOOGLE).status == 404
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["serviceAccounts"] == []


def test_a_service_account_and_a_refresh_token_get_tokens(talk):
    claims = {"iss": "robot@local-p.iam.gserviceaccount.com", "scope": "https://www.googleapis.com/auth/compute"}
    assertion = "h." + base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=") + ".s"
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    token = talk.call("POST", "/token", urlencode(form).encode())[1]["access_token"]
    info = talk.call("GET", "/tokeninfo", access_token=token)[1]
    assert (info["email"], info["scope"]) == (claims["iss"], claims["scope"])
    refreshed = talk.call("POST", "/token", urlencode({"grant_type": "refresh_token"}).encode())
    assert refreshed[0] == 200
    status, reply = talk.call("POST", "/token", b"grant_type=password")
    assert (status, reply["error"]) == (400, "unsupported_grant_type")
    assert talk.call("POST", "/token", urlencode({**form, "assertion": "x"}).encode())[0] == 400


def test_a_machine_that_died_by_itself_boots_again_but_not_for_ever():
    talk = Talk()
    machine = f"{talk.node()['id']}-0"
    talk.boot()
    for _ in range(10):
        talk.events += talk.core.tell(Crashed(machine, "oops"), talk.now)
        talk.wait(5)
    boots = [event.machine.boot for event in talk.events if isinstance(event, StartMachine)]
    assert boots == [1, 2, 3, 4]


def test_after_a_restart_of_the_program_machines_boot_again(talk):
    talk.node("n1")
    talk.node("n2")
    talk.call("POST", f"{NODES}/n2:stop", {})
    talk.wait()
    again = Talk(world=talk.world)
    started = [event.machine for event in again.core.resume(talk.now)]
    assert [(machine.name, machine.boot) for machine in started] == [("n1", 2)]
