"""With any one variable of the redirection left out, gcloud and Google's clients fail: none reaches Google with a name.

What would leave this machine goes to a proxy that notes the host and refuses. An identity lies in the home folder; to
use it a command would have to ask Google's token server first, which the proxy would see.
"""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tpuops import redirect

pytestmark = [pytest.mark.wire, pytest.mark.gcloud, pytest.mark.timeout(300)]
GROUPS = {
    "TPU": ("compute", "tpus", "tpu-vm", "list", "--zone=us-central1-a"),
    "COMPUTE": ("compute", "instances", "list"),
    "STORAGE": ("storage", "buckets", "list"),
    "SERVICEUSAGE": ("services", "list"),
    "CLOUDRESOURCEMANAGER": ("projects", "get-iam-policy", "local-tpuops"),
    "IAM": ("iam", "service-accounts", "describe", "a@local-tpuops.iam.gserviceaccount.com"),
    "OSLOGIN": ("compute", "os-login", "describe-profile"),
    "SECRETMANAGER": ("secrets", "list"),
    "LOGGING": ("logging", "logs", "list"),
    "CLOUDQUOTAS": ("alpha", "quotas", "info", "list", "--service=tpu.googleapis.com", "--project=local-tpuops"),
    "IAMCREDENTIALS": (
        "auth",
        "print-access-token",
        "--impersonate-service-account=a@local-tpuops.iam.gserviceaccount.com",
    ),
}
"""A command for each group of gcloud that tpuops or a person in such a shell may use, by the API it needs."""
CLIENTS = """
import importlib, os, sys
import google.auth
from google.auth.compute_engine import _metadata
from google.cloud import compute_v1, storage, tpu_v2

def tpu():
    client = tpu_v2.TpuClient(transport="rest")
    client.list_nodes(parent="projects/local-tpuops/locations/us-central1-a", timeout=3)

def compute():
    compute_v1.InstancesClient().list(project="local-tpuops", zone="us-central1-a", timeout=3, retry=None)

def buckets():
    client = storage.Client(project="local-tpuops")
    client._connection.api_request(method="GET", path="/b", query_params={"project": "x"}, retry=None, timeout=3)

def login():
    from google.auth.transport.requests import Request
    google.auth.default()[0].refresh(Request())

for name in sys.argv[1:]:
    for attempt in (tpu, compute, buckets, login):
        if os.fork() == 0:
            os.environ.pop(name, None)
            importlib.reload(_metadata)
            try:
                attempt()
                print(name, attempt.__name__, "went", flush=True)
            except Exception as error:
                print(name, attempt.__name__, type(error).__name__, flush=True)
            os._exit(0)
        os.wait()
"""
IDENTITY = '{"type": "authorized_user", "client_id": "x", "client_secret": "y", "refresh_token": "z"}'


class Wall:
    """A proxy that lets nothing through, and what it was asked for."""

    def __init__(self):
        asked = self.asked = []

        class Refuse(BaseHTTPRequestHandler):
            def do_CONNECT(self):
                asked.append((self.path, self.headers.get("Authorization")))
                self.send_error(403)

            do_GET = do_POST = do_CONNECT  # noqa: N815 (named by the base class)

            def log_message(self, *_):
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def wall():
    wall = Wall()
    yield wall
    wall.close()


@pytest.fixture
def surroundings(shared_cloud, wall, tmp_path):
    return redirected(shared_cloud.url, wall, tmp_path)


@pytest.fixture(scope="module", autouse=True)
def left_out(_one_cloud, tmp_path_factory):
    """Each group without the override of its API, begun before all else: gcloud waits and tries again for half a
    minute until it fails. The runs to come, and the wall in their way."""
    wall = Wall()
    environment = redirected(_one_cloud.url, wall, tmp_path_factory.mktemp("left-out"))
    with ThreadPoolExecutor(len(GROUPS)) as pool:
        yield (
            wall,
            [
                pool.submit(without, environment, f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}", [gcloud_program(), *words])
                for api, words in GROUPS.items()
            ],
        )
    wall.close()


def redirected(url, wall, scratch):
    """The whole redirection, with a real-looking identity lying in the home folder."""
    home = scratch / "home"
    (home / ".config" / "gcloud").mkdir(parents=True)
    (home / ".config" / "gcloud" / "application_default_credentials.json").write_text(IDENTITY)
    redirect.write_token(url, scratch)
    proxies = {name: wall.url for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")}
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TPUOPS_TESTS": os.environ.get("TPUOPS_TESTS", ""),
        **proxies,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **redirect.variables(url, scratch),
    }


def without(surroundings, name, command):
    environment = {key: value for key, value in surroundings.items() if key != name}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def gcloud_program():
    program = shutil.which("gcloud")
    assert program, "gcloud is missing"
    return program


def gcloud(surroundings, without_one):
    """Each of these commands without its variable, several at a time."""
    program = gcloud_program()
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda one: without(surroundings, one[0], [program, *one[1]]), without_one))


def test_every_group_is_served_or_ends_in_a_404_with_all_overrides_in_force(surroundings, wall):
    runs = gcloud(surroundings, [("nothing", words) for words in GROUPS.values()])
    assert wall.asked == []
    ended = dict(zip(GROUPS, [run.returncode for run in runs], strict=True))
    assert [api for api, code in ended.items() if code == 0 and api not in map(str.upper, redirect.SERVED)] == []
    assert [api for api in redirect.SERVED if ended[api.upper()] != 0] == [], runs


def others(surroundings):
    """Every variable of the redirection that is no API's endpoint."""
    known = redirect.variables("http://127.0.0.1:1/k-x", Path("/nowhere"))
    return [name for name in known if not name.startswith("CLOUDSDK_API_ENDPOINT_OVERRIDES_") and name in surroundings]


def test_gcloud_without_one_other_variable_still_asks_the_embedded_cloud_alone(surroundings, wall):
    names = [name for name in others(surroundings) if name.startswith(("CLOUDSDK", "GOOGLE", "GCE"))]
    assert len(names) >= 10
    gcloud(surroundings, [(name, GROUPS["COMPUTE"]) for name in names])
    assert wall.asked == []


def test_no_client_library_finds_a_login_without_any_one_variable(surroundings, wall):
    names = ["nothing", *others(surroundings)]
    done = without(surroundings, "nothing", [sys.executable, "-c", CLIENTS, *names])
    assert done.returncode == 0, done.stderr
    ended = {tuple(line.split()[:2]): line.split()[2] for line in done.stdout.splitlines()}
    assert len(ended) == len(names) * 4
    went = {pair for pair, end in ended.items() if end == "went"}
    assert went == {(name, "buckets") for name in names if name != "STORAGE_EMULATOR_HOST"}
    assert not [named for _, named in wall.asked if named]
    assert not [host for host, _ in wall.asked if host.startswith(("oauth2.", "accounts."))]


def test_gcloud_without_the_override_of_an_api_fails_and_names_nobody(left_out):
    wall, begun = left_out
    runs = [run.result() for run in begun]
    assert [run.returncode != 0 for run in runs] == [True] * len(GROUPS), [run.stderr for run in runs]
    asked = {host.partition(".googleapis.com")[0] for host, _ in wall.asked}
    assert {api for api in redirect.SERVED if api not in asked} == set()  # the wall was in the way of every one
    assert not [named for _, named in wall.asked if named]
    assert asked.isdisjoint({"oauth2", "accounts"})


def test_every_api_that_is_served_has_a_command_here():
    assert {api.upper() for api in redirect.SERVED} <= GROUPS.keys()
