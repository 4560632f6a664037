"""google-auth, and what gcloud logs in with, ask for tokens, exchange them, and ask a machine's metadata server.

What no library of Google's asks, because a machine's own software does it, is asked here as that software asks it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from google.auth import identity_pool
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from tests.cloud_fixture import LocalCloud

EMAIL = "robot@local-tests.iam.gserviceaccount.com"
ALL = ["https://www.googleapis.com/auth/cloud-platform"]
ON_A_MACHINE = """
import os
import google.auth.transport.requests as transport
from google.auth import compute_engine
from google.auth.compute_engine import _metadata
request = transport.Request()
assert _metadata.is_on_gce(request)
assert request(url=f"http://{os.environ['GCE_METADATA_IP']}/", headers=_metadata._METADATA_HEADERS).status == 200
assert _metadata.get(request, "", recursive=True)["instance"]["name"]
credentials = compute_engine.Credentials()
credentials.refresh(request)
print(credentials.token)
"""


def call_all(cloud: LocalCloud, scratch: Path) -> None:
    """Call them; a machine must be there, and a user with OS Login."""
    made = [sys.executable, "-P", "-m", "tpuops.localcloud", "key", "--state", str(cloud.state), "--email", EMAIL]
    key = json.loads(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
    account = service_account.Credentials.from_service_account_info(key, scopes=ALL)
    account.refresh(Request())
    for verb in ("GET", "POST"):
        assert _asked(cloud, f"/tokeninfo?access_token={account.token}", verb)["email"] == EMAIL
    _federated(cloud, scratch)
    _on_a_machine(cloud)


def _federated(cloud: LocalCloud, scratch: Path) -> None:
    """Somebody else's token for one of ours, and that for a service account's."""
    (scratch / "theirs").write_text("their-token")
    credentials = identity_pool.Credentials.from_info(
        {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{cloud.url}/sts/v1/token",
            "service_account_impersonation_url": f"{cloud.url}/iamcredentials/v1/projects/-/serviceAccounts/{EMAIL}"
            ":generateAccessToken",
            "credential_source": {"file": str(scratch / "theirs")},
            "scopes": ALL,
        }
    ).with_scopes(ALL)
    credentials.refresh(Request())
    assert _asked(cloud, f"/tokeninfo?access_token={credentials.token}")["email"] == EMAIL


def _on_a_machine(cloud: LocalCloud) -> None:
    machine = cloud.status()["machines"][0]["id"]
    place = cloud.url.removeprefix(f"{urlsplit(cloud.url).scheme}://") + f"/m/{machine}"
    names = ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT")
    environment = {**os.environ, **dict.fromkeys(names, place)}
    environment.pop("NO_GCE_CHECK", None)
    done = subprocess.run(
        [sys.executable, "-P", "-c", ON_A_MACHINE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert _asked(cloud, f"/tokeninfo?access_token={done.stdout.strip()}")["email"]
    guest = f"/m/{machine}/computeMetadata/v1/oslogin"
    assert _asked(cloud, f"{guest}/users?username=me_example_org")["loginProfiles"]
    email = urllib.parse.quote("me@example.org")
    assert _asked(cloud, f"{guest}/authorize?email={email}&policy=login") == {"success": True}


def _asked(cloud: LocalCloud, path: str, verb: str = "GET") -> dict[str, object]:
    asked = urllib.request.Request(cloud.url + path, headers={"Metadata-Flavor": "Google"}, method=verb)
    with urllib.request.urlopen(asked, timeout=20) as reply:
        return dict(json.loads(reply.read()))
