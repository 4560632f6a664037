"""Logging in where policy forbids guest attributes: the machines tell their host keys in the home bucket."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any
from urllib.parse import quote

import pytest

from tests.lifecycle.conftest import TRAINER, User
from tpuops import embedded
from tpuops.errors import TpuopsError

pytestmark = pytest.mark.wire

FORBIDDEN = b'{"compute.disableGuestAttributesAccess": true}'
NODE = "/v2/projects/local-tests/locations/us-central1-a/nodes/tpuops-tiny-ada"
ME = "ada@example.com"
EVERYTHING = "https://www.googleapis.com/auth/cloud-platform"
WORKER = "tpuops/tiny/hostkeys/tpuops-tiny-ada-0.json"
VM = "tpuops/tiny/hostkeys/tpuops-tiny-ada-vm.json"


def ask(user: User, verb: str, path: str, body: bytes = b"") -> dict[str, Any]:
    stage = embedded.status(user.state)
    assert stage is not None
    return dict(embedded.ask(stage, verb, path, body))


def bucket(user: User) -> str:
    return str(ask(user, "GET", NODE)["metadata"]["tpuops-bucket"])


def told(user: User, name: str) -> dict[str, Any]:
    """The object, as soon as its machine has written it."""
    for _ in range(300):
        try:
            return ask(user, "GET", f"/storage/v1/b/{bucket(user)}/o/{quote(name, safe='')}?alt=media")
        except TpuopsError as error:
            assert "No such object" in str(error.evidence), error.evidence
        time.sleep(0.1)
    raise AssertionError(f"nobody wrote {name}")


def put(user: User, name: str, document: dict[str, Any]) -> None:
    path = f"/upload/storage/v1/b/{bucket(user)}/o?uploadType=media&name={quote(name, safe='')}"
    ask(user, "POST", path, json.dumps(document).encode())


def typed(user: User, *words: str, code: int = 0) -> tuple[str, str]:
    process = user.start(*words)
    out, err = (each.decode() for each in process.communicate(timeout=180))
    assert process.returncode == code, err
    return out, err


def stranger() -> str:
    words = (b"ssh-ed25519", secrets.token_bytes(32))
    return "ssh-ed25519 " + base64.b64encode(b"".join(len(w).to_bytes(4, "big") + w for w in words)).decode()


def test_machines_are_entered_by_what_they_tell_in_the_bucket(user: User) -> None:
    user.write(TRAINER, steps="5", success="keep")
    user.run("up")
    ask(user, "POST", "/_cloud/constraints", FORBIDDEN)
    first = told(user, WORKER)
    told(user, VM)
    assert typed(user, "ssh", "--command", "echo in")[0] == "in\n"
    assert typed(user, "ssh", "--vm", "--command", "echo in")[0] == "in\n"
    user.run("train")

    true_keys = first["keys"]
    for keys, says in (
        ([f"{true_keys[0]}\n* {stranger()}"], "not a host key"),
        ([stranger()], "is said to have another host key"),
    ):
        put(user, WORKER, {**first, "keys": keys})
        assert says in typed(user, "ssh", "--command", "true", code=3)[1]
    put(user, WORKER, first)


@pytest.mark.gcloud
def test_a_tpu_is_found_through_iap_by_the_name_it_tells_in_the_bucket(user: User) -> None:
    """Identity-Aware Proxy knows a worker by a name that only the worker itself can tell."""
    user.write(TRAINER, steps="5", success="keep")
    path = user.folder / "environments" / "tiny.yaml"
    path.write_text(path.read_text() + "ssh: {login: os-login, reach: iap}\n")
    user.run("cloud.start")
    ask(user, "POST", "/_cloud/constraints", FORBIDDEN)
    user.run("up")
    first = told(user, WORKER)
    assert first["hostname"].startswith("t1v-n-")
    assert typed(user, "ssh", "--command", "echo in")[0] == "in\n"
    assert user.run("train")["outcome"] == "done"
    findings = {row["check"]: row for row in user.run("doctor", "--fix", "--yes")["findings"]}
    assert (findings["ssh-login"]["state"], findings["machines"]["state"]) == ("ok", "ok"), findings["machines"]

    put(user, WORKER, {**first, "hostname": "t1v-n-gone-w-0"})
    assert "t1v-n-gone-w-0" not in typed(user, "ssh", "--command", "true", code=5)[0]
    put(user, WORKER, {**first, "hostname": "--flags-file=/etc/passwd"})
    assert "is no name that an instance can have" in typed(user, "ssh", "--command", "true", code=3)[1]


def test_what_an_earlier_machine_left_is_not_believed(user: User) -> None:
    user.run("up")
    ask(user, "POST", "/_cloud/constraints", FORBIDDEN)
    first = told(user, WORKER)
    user.run("down", "--yes", "--discard")
    access = {"enforce": True, "bindings": {ME: ["roles/owner"]}, "anonymous": {"email": ME, "scopes": [EVERYTHING]}}
    ask(user, "POST", "/_cloud/access", json.dumps(access).encode())  # the new machine may write nothing
    user.run("up")
    assert told(user, WORKER) == first
    refused = typed(user, "ssh", "--command", "true", code=5)[1]
    assert "has not published its host keys" in refused
    assert "it must be able to write to the home bucket" in refused
    ask(user, "POST", "/_cloud/access", b'{"enforce": false}')
    while (second := told(user, WORKER)) == first:  # the machine comes back to it by itself
        time.sleep(0.2)
    assert (second["name"], second["keys"] != first["keys"]) == (first["name"], True)
    assert typed(user, "ssh", "--command", "echo in")[0] == "in\n"
