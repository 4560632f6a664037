"""Secrets of twenty kinds, planted wherever a user of Google's cloud has some, and looked for wherever one could leak.

Looked at while a training runs and after it: every command line, the environments of the machine's processes and of its
tmux server, what the cloud knows of machines (metadata, labels, its request log), every object of every bucket, every
file of ours on this machine (journals, logs, reports, machines' homes), and all that commands print.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.environment.test_secrets import _forms, _in_command_lines, _in_files, _in_objects, _keep, _started_with
from tests.lifecycle.conftest import User, until, user  # noqa: F401
from tpuops import embedded

VERSION = "projects/local-p/secrets/token/versions/latest"
PROGRAM = """
import os, pathlib, subprocess, time
out = pathlib.Path(os.environ["TPUOPS_OUTPUTS"])
out.mkdir(exist_ok=True)
(out / "model.txt").write_text("weights")
shown = subprocess.run(["tmux", "show-environment", "-g"], capture_output=True).stdout
(pathlib.Path.home() / "tmux-environment").write_bytes(shown)
print("step=1", flush=True)
while not (pathlib.Path.home() / "go-on").exists():
    time.sleep(0.05)
print("step=2", flush=True)
"""
HANDED = ("train.secrets from a variable", "train.secrets from a file", "train.secrets from Secret Manager")
"""These reach the training process, by wish; the others reach no machine at all."""
VARIABLES = {
    "an API key of the shell": "WANDB_API_KEY",
    "a hub's token": "HF_TOKEN",
    "a forge's token": "GITHUB_TOKEN",
    "another cloud's key": "AWS_SECRET_ACCESS_KEY",
    "a package index's password": "PIP_EXTRA_INDEX_URL",
    "a database's password": "PGPASSWORD",
    "gcloud's access token": "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "a training service's password": "MLFLOW_TRACKING_PASSWORD",
}
FILES = {
    "a saved hub's token": ".cache/huggingface/token",
    "a netrc's password": ".netrc",
    "a personal SSH key": ".ssh/id_ed25519",
    "gcloud's own SSH key": ".ssh/google_compute_engine",
    "gcloud's saved tokens": "gcloud/access_tokens.db",
    "a cluster's token": ".kube/config",
    "a data service's key": ".kaggle/kaggle.json",
}
KINDS = (
    *HANDED,
    "a login's refresh token",
    "a login's client secret",
    *VARIABLES,
    *FILES,
    "an ignored .env",
    "a remote",
)


@pytest.fixture
def planted(user: User, home: Path) -> Mapping[str, str]:  # noqa: F811
    """A canary of each kind, in its place."""
    canaries = {kind: f"canary{number:02d}{os.urandom(12).hex()}" for number, kind in enumerate(KINDS)}
    user.write(PROGRAM)
    _plant_handed(user, canaries)
    login = {
        "type": "authorized_user",
        "client_id": "764086051850-x.apps.googleusercontent.com",
        "client_secret": canaries["a login's client secret"],
        "refresh_token": canaries["a login's refresh token"],
        "token_uri": f"{_stage(user).url}/token",
        "quota_project_id": "local-tests",
    }
    _write(home / "gcloud" / "application_default_credentials.json", json.dumps(login))
    for kind, variable in VARIABLES.items():
        user.env[variable] = f"https://me:{canaries[kind]}@h/" if variable.startswith("PIP") else canaries[kind]
    for kind, name in FILES.items():
        _write(home / name, f"machine h password {canaries[kind]}\n")
    source = user.folder / "source"
    _write(source / ".gitignore", ".env\n")
    _write(source / ".env", f"TOKEN={canaries['an ignored .env']}\n")
    _git(source, "init", "-q")
    _git(source, "remote", "add", "origin", f"https://me:{canaries['a remote']}@forge.example/x.git")
    _git(source, "add", "train.py", ".gitignore")
    _git(source, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
    return canaries


def _plant_handed(user: User, canaries: Mapping[str, str]) -> None:  # noqa: F811
    places = dict(zip(("VARIABLE", "FILE", "MANAGER"), HANDED, strict=True))
    _write(user.folder / "token", canaries[places["FILE"]])
    path = user.folder / "environments" / "tiny.yaml"
    references = f"{{VARIABLE: {{env: MY_TOKEN}}, FILE: {{file: ../token}}, MANAGER: {{secret_manager: {VERSION}}}}}"
    path.write_text(path.read_text().replace("  outputs: [outputs]", f"  outputs: [outputs]\n  secrets: {references}"))
    user.run("cloud.start")  # without the shell's secrets: it lives on, and is nobody's child
    _keep(user, canaries[places["MANAGER"]])
    user.env["MY_TOKEN"] = canaries[places["VARIABLE"]]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def _stage(user: User) -> embedded.Stage:  # noqa: F811
    stage = embedded.status(user.state)
    assert stage is not None
    return stage


def _told_by_the_cloud(user: User) -> bytes:  # noqa: F811
    """What the API shows of machines: metadata, labels, guest attributes, operations; and the log of requests."""
    zone = "projects/local-tests/locations/us-central1-a"
    paths = (f"/v2/{zone}/nodes", f"/v2/{zone}/operations", "/compute/v1/projects/local-tests/aggregated/instances")
    stage = _stage(user)
    shown: list[Any] = [embedded.ask(stage, "GET", path) for path in (*paths, "/_cloud/requests")]
    return json.dumps(shown).encode()


def _leaks(user: User, canaries: Mapping[str, str], said: bytes) -> list[str]:  # noqa: F811
    """Each canary with each place where it is seen and must not be."""
    found = []
    for kind, canary in canaries.items():
        forms = _forms(canary)
        vault = "cloud.sqlite" if kind == HANDED[2] else "/"  # Secret Manager itself holds that one
        places = {
            "a command line": bool(_in_command_lines(forms)),
            "a file of ours": bool(_in_files(user.state.parent, forms, but=vault)),
            "an object": bool(_in_objects(user, forms)),
            "what the cloud shows": any(form in _told_by_the_cloud(user) for form in forms),
            "what was printed": any(form in said for form in forms),
            "a process's environment": kind not in HANDED and _is_inherited(user, canary),
        }
        found += [f"{kind}: {place}" for place, leaked in places.items() if leaked]
    return found


def _is_inherited(user: User, canary: str) -> bool:  # noqa: F811
    """Whether a process that is none of the user's own commands carries it: the cloud's, a machine's, tmux's."""
    own = {process.pid for process in user.started} | {os.getpid()}
    return any(pid not in own for pid, _ in _started_with(canary.encode()))


@pytest.mark.wire
@pytest.mark.timeout(400)
def test_secrets_of_twenty_kinds_are_seen_nowhere(
    user: User,  # noqa: F811
    planted: Mapping[str, str],
    until: Any,  # noqa: F811
) -> None:
    assert len(planted) >= 20
    run = user.start("run", "--verbose")
    until(lambda: list(user.state.rglob("tmux-environment")), 120)
    said = b""
    for words in (("doctor",), ("doctor", "--json", "--verbose"), ("status", "--json"), ("logs",), ("plan", "--json")):
        done = user.start(*words).communicate(timeout=120)
        said += b"".join(done)
    assert _leaks(user, planted, said) == []
    (tmux,) = user.state.rglob("tmux-environment")
    assert b"HOME=" in tmux.read_bytes(), "tmux's environment was looked at"
    (tmux.parent / "go-on").touch()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err.decode()
    fetched = user.start("fetch", "--verbose").communicate(timeout=120)
    assert _leaks(user, planted, said + out + err + b"".join(fetched)) == []
    assert base64.b64encode(b"weights") and list(user.folder.glob("*/**/model.txt"))
