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

import pytest

from tpuops import redirect

pytestmark = [pytest.mark.wire, pytest.mark.gcloud, pytest.mark.timeout(300)]
GROUPS = {
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": ("compute", "tpus", "tpu-vm", "list"),
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": ("compute", "instances", "list"),
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": ("storage", "buckets", "list"),
}
CLIENT = """
from google.cloud import storage, tpu_v2
storage.Client(project="local-tpuops")._connection.api_request(method="GET", path="/b", query_params={"project": "x"},
    retry=None, timeout=5)
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


@pytest.fixture
def wall():
    wall = Wall()
    yield wall
    wall.server.shutdown()
    wall.server.server_close()


@pytest.fixture
def surroundings(shared_cloud, wall, tmp_path):
    """The whole redirection, with a real-looking identity lying in the home folder."""
    home = tmp_path / "home"
    (home / ".config" / "gcloud").mkdir(parents=True)
    (home / ".config" / "gcloud" / "application_default_credentials.json").write_text(IDENTITY)
    proxies = {name: wall.url for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")}
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TPUOPS_TESTS": os.environ.get("TPUOPS_TESTS", ""),
        **proxies,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **redirect.variables(shared_cloud.url, tmp_path / "scratch"),
    }


def without(surroundings, name, command):
    environment = {key: value for key, value in surroundings.items() if key != name}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_gcloud_without_one_override_fails_and_names_nobody(surroundings, wall):
    program = shutil.which("gcloud")
    assert program, "gcloud is missing"
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda one: without(surroundings, one[0], [program, *one[1]]), GROUPS.items()))
    assert [run.returncode != 0 for run in done] == [True] * 3, [run.stderr for run in done]
    assert {host.partition(":")[0].rpartition("googleapis.com")[1] for host, _ in wall.asked} <= {"googleapis.com"}
    assert not [named for _, named in wall.asked if named]
    assert not [host for host, _ in wall.asked if host.startswith(("oauth2.", "accounts."))]


@pytest.mark.parametrize("name", ["CLOUDSDK_CONFIG", "CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "CLOUDSDK_CORE_PROJECT"])
def test_gcloud_without_one_other_variable_still_asks_the_embedded_cloud_alone(surroundings, wall, name):
    without(surroundings, name, [shutil.which("gcloud"), *GROUPS["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"]])
    assert wall.asked == []


def test_a_client_without_the_redirection_of_storage_finds_no_way_out(surroundings, wall):
    done = without(surroundings, "STORAGE_EMULATOR_HOST", [sys.executable, "-c", CLIENT])
    assert done.returncode != 0
    assert not [named for _, named in wall.asked if named]
    assert without(surroundings, "nothing", [sys.executable, "-c", CLIENT]).returncode == 0
