"""The whole life of a run with exactly the roles and the scope that doctor prints, and without each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle.conftest import User, made_user
from tpuops import embedded
from tpuops.facts.roles import OPERATOR, PRIVATE
from tpuops.localcloud.core.draw import project_number

from . import logins
from .conftest import ADA, AUTH, Clinic, Seen

pytestmark = pytest.mark.wire
MACHINES = f"{project_number('local-tests')}-compute@developer.gserviceaccount.com"
MACHINES_ROLES = ["roles/storage.objectAdmin", "roles/storage.legacyBucketReader"]  # google-cloud.md 4.11


@pytest.fixture
def user(tmp_path: Path, home: Path) -> Iterator[User]:
    made = made_user(tmp_path)
    made.run("cloud.start")
    yield made
    made.end()


def access(user: User, **rules: object) -> None:
    stage = embedded.status(user.state)
    assert stage is not None
    embedded.ask(stage, "POST", "/_cloud/access", json.dumps(rules).encode())


def test_a_run_lives_with_the_printed_roles_and_scope_and_no_others(user: User, home: Path) -> None:
    stage = embedded.status(user.state)
    assert stage is not None
    login = {**logins.PERSON, "token_uri": f"{stage.url}/token", "quota_project_id": "local-tests"}
    file = home / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir()
    file.write_text(json.dumps(login))
    access(user, logins={logins.CANARY: {"email": ADA}})
    scope, *roles = Seen(user.run("doctor"))["permissions"]["evidence"]
    printed = [line.partition(":")[0] for line in roles]
    scopes = [scope.removeprefix("scope ")]
    access(
        user,
        enforce=True,
        quota_project=True,
        bindings={ADA: printed, MACHINES: MACHINES_ROLES},
        logins={logins.CANARY: {"email": ADA, "scopes": scopes}},
    )
    assert user.run("doctor")["healthy"]  # it also asks what only an administrator may see, and does without
    looked = user.requests()[-1]["n"]
    user.run("up")
    assert user.run("train")["outcome"] == "done"
    assert user.run("fetch")["bytes"] > 0
    assert user.run("down")["remains"] == []
    refused = {entry["method"] for entry in user.requests(looked) if entry["status"] in {401, 403}}
    assert refused <= {"cloudquotas.quotaInfos.list"}  # `up` asks for quota where it may, and does without


WITHOUT = [
    ("roles/tpu.admin", "tpu.", "roles/tpu.admin"),
    ("roles/compute.instanceAdmin.v1", "compute.", "roles/compute.instanceAdmin.v1"),
    ("roles/iam.serviceAccountUser", "iam.serviceAccounts.actAs", "roles/iam.serviceAccountUser"),
    ("roles/storage.admin", "storage.buckets.get", "roles/storage.admin"),
    (
        "roles/serviceusage.serviceUsageConsumer",
        "quota project",
        "roles/serviceusage.serviceUsageConsumer",
    ),
]


def test_every_printed_role_is_taken_away_once_and_stands_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert all(role.name in readme for role in (*OPERATOR, *PRIVATE.values()))
    assert [row[0] for row in WITHOUT] == [role.name for role in OPERATOR]


@pytest.mark.parametrize(("role", "says", "hint"), WITHOUT, ids=[row[0] for row in WITHOUT])
def test_up_without_one_of_the_roles_names_it(clinic: Clinic, role: str, says: str, hint: str) -> None:
    clinic.access(enforce=True, bindings={ADA: [each.name for each in OPERATOR if each.name != role]})
    logins.person(clinic)
    error = clinic.run("up", "--env", "tiny", code=3)["error"]
    assert says in error["message"], error
    assert hint in error["hint"], error


def test_up_without_the_scope_names_it(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings={ADA: [each.name for each in OPERATOR]})
    logins.person(clinic, scopes=[f"{AUTH}compute"])
    error = clinic.run("up", "--env", "tiny", code=3)["error"]
    assert "cloud-platform scope" in error["message"]
    assert "gcloud auth application-default login" in error["hint"]
