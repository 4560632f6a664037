"""A service account's key file whose token endpoint is the embedded cloud, used by google-auth and Google's clients."""

import json
import subprocess
import sys

import pytest
from google.api_core import exceptions
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import Request
from google.cloud import storage, tpu_v2
from google.oauth2 import service_account

pytestmark = pytest.mark.wire
EMAIL = "robot@local-tests.iam.gserviceaccount.com"
AUTH = "https://www.googleapis.com/auth/"
PARENT = "projects/local-tests/locations/us-central1-a"


@pytest.fixture
def key(shared_cloud, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    command = [sys.executable, "-P", "-m", "tpuops.localcloud", "key", "--state", str(shared_cloud.state)]
    done = subprocess.run([*command, "--email", EMAIL], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_key_file_gets_the_scopes_it_asks_for_and_no_others(shared_cloud, key):
    account = service_account.Credentials.from_service_account_info(key, scopes=[f"{AUTH}compute.readonly"])
    account.refresh(Request())
    info = shared_cloud.ask("GET", f"/tokeninfo?access_token={account.token}")
    assert (info["email"], info["scope"]) == (EMAIL, f"{AUTH}compute.readonly")


def test_another_key_of_the_same_name_is_refused(shared_cloud, key):
    shared_cloud.ask("POST", "/_cloud/reset")
    command = [sys.executable, "-P", "-m", "tpuops.localcloud", "key", "--state", str(shared_cloud.state)]
    subprocess.run([*command, "--email", EMAIL], capture_output=True, check=True)
    account = service_account.Credentials.from_service_account_info(key, scopes=[f"{AUTH}cloud-platform"])
    with pytest.raises(RefreshError, match="Invalid JWT Signature"):
        account.refresh(Request())


def test_clients_with_the_key_are_held_to_scopes_and_roles(shared_cloud, key):
    shared_cloud.ask("POST", "/_cloud/access", {"enforce": True, "bindings": {EMAIL: ["roles/tpu.viewer"]}})
    account = service_account.Credentials.from_service_account_info(key, scopes=[f"{AUTH}cloud-platform"])
    options = {"api_endpoint": shared_cloud.url}
    tpu = tpu_v2.TpuClient(credentials=account, transport="rest", client_options=options)
    assert list(tpu.list_nodes(parent=PARENT)) == []
    with pytest.raises(exceptions.Forbidden, match=r"tpu\.nodes\.create"):
        node = tpu_v2.Node(accelerator_type="v3-8", runtime_version="r")
        tpu.create_node(parent=PARENT, node_id="n1", node=node)
    client = storage.Client(project="local-tests", credentials=account, client_options=options)
    with pytest.raises(exceptions.Forbidden, match=r"storage\.buckets\.list"):
        list(client.list_buckets())
    stranger = service_account.Credentials.from_service_account_info(key, scopes=[f"{AUTH}logging.write"])
    narrow = storage.Client(project="local-tests", credentials=stranger, client_options=options)
    with pytest.raises(exceptions.Forbidden, match="insufficient authentication scopes"):
        list(narrow.list_buckets())


def test_a_key_needs_a_running_cloud(tmp_path):
    command = [sys.executable, "-P", "-m", "tpuops.localcloud", "key", "--state", str(tmp_path), "--email", EMAIL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "no embedded cloud serves" in done.stderr) == (2, True)
