"""The variables that send gcloud to the embedded cloud leave it no way to Google."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpuops import embedded, redirect
from tpuops.errors import TpuopsError

URL = "http://127.0.0.1:4000/k-abc"
TPUOPS = Path(sys.executable).parent / "tpuops"
ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
LISTED = """
import sys
sys.path[:0] = [sys.argv[1] + "/lib", sys.argv[1] + "/lib/third_party"]
from googlecloudsdk.core import properties
section = properties.VALUES.api_endpoint_overrides
print(*[each.name for each in section])
"""


def endpoints(scratch: Path) -> dict[str, str]:
    variables = redirect.variables(URL, scratch)
    return {name.removeprefix(ENDPOINT).lower(): url for name, url in variables.items() if name.startswith(ENDPOINT)}


@pytest.fixture
def shell(home: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell with real credentials in it, after `eval "$(tpuops cloud.env)"`."""
    before = {
        **os.environ,
        "GOOGLE_APPLICATION_CREDENTIALS": "/etc/hostname",
        "CLOUDSDK_CORE_ACCOUNT": "me@example.com",
    }
    script = (
        f'eval "$({TPUOPS} cloud.env)" && {sys.executable} -c "import json, os; print(json.dumps(dict(os.environ)))"'
    )
    done = subprocess.run(["sh", "-c", script], env=before, capture_output=True, text=True, check=True, timeout=30)
    yield json.loads(done.stdout)
    asyncio.run(embedded.stop(embedded.folder()))


def gcloud(shell: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = ["gcloud", *words, "--format=json"]
    return subprocess.run(command, env=shell, capture_output=True, text=True, check=False, timeout=60)


def test_a_project_of_google_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="local-"):
        redirect.variables(URL, tmp_path, "my-project")


def test_without_gcloud_the_served_apis_are_still_redirected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert endpoints(tmp_path) == {api: URL + path for api, path in redirect.SERVED.items()}
    assert {"tpu", "compute", "storage", "serviceusage", "cloudresourcemanager", "oslogin"} <= redirect.SERVED.keys()


def test_a_gcloud_whose_list_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sdk/bin/gcloud"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(TpuopsError, match="cannot be read"):
        redirect.variables(URL, tmp_path)


@pytest.mark.gcloud
def test_every_api_that_gcloud_itself_lists_is_overridden(tmp_path: Path) -> None:
    sdk = Path(shutil.which("gcloud")).resolve().parents[1]
    python = next(sdk.glob("platform/bundledpythonunix/bin/python3"), Path("/usr/bin/python3"))
    listed = subprocess.run([python, "-c", LISTED, sdk], capture_output=True, text=True, check=True).stdout.split()
    found = endpoints(tmp_path)
    assert len(listed) > 100
    assert set(listed) <= found.keys()
    assert all(url.startswith(URL + "/") and url.endswith("/") for url in found.values())


@pytest.mark.gcloud
@pytest.mark.wire
def test_the_shell_holds_no_real_identity_and_reaches_the_embedded_cloud(shell: dict[str, str], home: Path) -> None:
    assert shell["GOOGLE_APPLICATION_CREDENTIALS"].startswith(str(home))
    assert not Path(shell["GOOGLE_APPLICATION_CREDENTIALS"]).exists()
    assert "CLOUDSDK_CORE_ACCOUNT" not in shell
    assert shell["CLOUDSDK_CONFIG"].startswith(str(home))
    listed = gcloud(shell, "compute", "tpus", "tpu-vm", "list", "--zone=us-central1-a")
    assert (listed.returncode, listed.stdout.strip()) == (0, "[]"), listed.stderr
    assert gcloud(shell, "config", "get-value", "project").stdout.strip() == '"local-tpuops"'


@pytest.mark.gcloud
@pytest.mark.wire
def test_a_file_goes_up_and_comes_back_through_the_redirected_gcloud(shell: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1 2 3")
    for words in (("buckets", "create", "gs://up-and-back"), ("cp", str(tmp_path / "weights"), "gs://up-and-back/w")):
        done = gcloud(shell, "storage", *words)
        assert done.returncode == 0, done.stderr
    words = ["gcloud", "storage", "cat", "gs://up-and-back/w"]
    assert subprocess.run(words, env=shell, capture_output=True, text=True, check=True).stdout == "1 2 3"
    assert (Path(shell["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"]).stat().st_mode & 0o777) == 0o600


@pytest.mark.gcloud
@pytest.mark.wire
@pytest.mark.parametrize("words", [("dns", "managed-zones", "list"), ("pubsub", "topics", "list")])
def test_an_api_that_is_not_served_ends_in_a_404(shell: dict[str, str], words: tuple[str, ...]) -> None:
    result = gcloud(shell, *words)
    assert result.returncode != 0
    assert "404" in result.stderr or "not found" in result.stderr.lower()
    assert "googleapis.com" not in result.stderr
