"""Projects, quota projects, APIs, places and permissions, broken one by one; what was mended, a real `up` proves."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from tpuops.facts.roles import OPERATOR, PRIVATE, SCOPE
from tpuops.localcloud.core.draw import project_number

from . import logins
from .conftest import ADA, FILE, Clinic, Seen

OPERATORS = [role.name for role in OPERATOR]


@pytest.fixture
def enforced(clinic: Clinic) -> Clinic:
    """Ada, with exactly the roles that doctor prints."""
    clinic.access(enforce=True, bindings={ADA: OPERATORS})
    logins.person(clinic)
    return clinic


def test_a_mistyped_project(enforced: Clinic) -> None:
    enforced.access(projects=["local-tests"])
    enforced.write(FILE.replace("project: local-tests", "project: local-tets"))
    seen = enforced.doctor(code=3)
    seen.is_broken("project", "project-wrong", "did you mean local-tests")
    assert "gcloud projects list" in seen["project"]["hint"]
    assert "tiny.yaml: project: local-tets" in seen["project"]["evidence"]


def test_a_project_that_nobody_pays_for(enforced: Clinic) -> None:
    enforced.access(unbilled=["local-tests"])
    enforced.doctor(code=3).is_broken("project", "billing-disabled", "gcloud billing projects link local-tests")


def test_no_quota_project_is_mended(enforced: Clinic) -> None:
    path = logins.person(enforced, quota_project="")
    enforced.access(quota_project=True)
    path.chmod(0o600)
    enforced.run("up", "--env", "tiny", code=3)
    enforced.doctor(code=3).is_broken("quota-project", "quota-project-missing", "set-quota-project local-tests")
    seen = enforced.doctor("--fix", "--yes")
    assert [row["result"] for row in seen.document["fixes"]] == ["done"]
    assert json.loads(path.read_text())["quota_project_id"] == "local-tests"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    enforced.run("up", "--env", "tiny")


def test_a_quota_project_that_is_not_ones_own_is_mended(enforced: Clinic) -> None:
    logins.person(enforced, quota_project="local-others")
    enforced.access(enforce=False)
    policy = {"bindings": [{"role": name, "members": [f"user:{ADA}"]} for name in OPERATORS]}
    enforced.cloud.ask("POST", "/resourcemanager/v1/projects/local-tests:setIamPolicy", {"policy": policy})
    enforced.access(enforce=True, quota_project=True, bindings={})
    enforced.doctor(code=3).is_broken("quota-project", "quota-project-denied", "set-quota-project")
    enforced.doctor("--fix", "--yes")
    enforced.run("up", "--env", "tiny")


def test_apis_that_are_off_are_enabled_and_waited_for(enforced: Clinic) -> None:
    off = ["tpu.googleapis.com", "compute.googleapis.com"]
    enforced.access(
        disabled=off, enable_delay_s=2, bindings={ADA: [*OPERATORS, "roles/serviceusage.serviceUsageAdmin"]}
    )
    seen = enforced.doctor(code=3)
    seen.is_broken("apis", "api-disabled", f"gcloud services enable {' '.join(off)} --project=local-tests")
    assert seen["zone"]["state"] == "skipped"
    assert enforced.cloud.requests(method="serviceusage.services.batchEnable") == []
    mended = enforced.doctor("--fix", "--yes")
    assert mended.document["fixes"][0]["result"] == "done"
    enforced.run("up", "--env", "tiny")


def test_an_api_that_this_login_may_not_enable_stays_broken(enforced: Clinic) -> None:
    enforced.access(disabled=["tpu.googleapis.com"])
    seen = enforced.doctor("--fix", "--yes", code=3)
    seen.is_broken("apis", "api-disabled", "gcloud services enable tpu.googleapis.com")
    assert "serviceusage.services.enable" in seen.document["fixes"][0]["result"]


def test_without_yes_and_without_a_terminal_nothing_is_mended(enforced: Clinic) -> None:
    enforced.access(disabled=["tpu.googleapis.com"])
    seen = enforced.doctor("--fix", code=3)
    assert seen.document["fixes"][0]["result"] == "declined"
    assert enforced.cloud.requests(method="serviceusage.services.batchEnable") == []


@pytest.mark.parametrize(
    "role", [role for role in OPERATOR if "serviceusage" not in role.name], ids=lambda role: role.name
)
def test_a_role_that_is_missing(enforced: Clinic, role) -> None:
    enforced.access(bindings={ADA: [name for name in OPERATORS if name != role.name]})
    seen = enforced.doctor(code=3)
    command = f"gcloud projects add-iam-policy-binding local-tests --member=user:{ADA} --role={role.name}"
    seen.is_broken("permissions", "permission-denied", command)
    assert seen["permissions"]["evidence"] == [f"{role.name}: {', '.join(role.permissions)}"]


def test_what_the_bucket_and_the_accounts_grant_themselves_is_not_missing(enforced: Clinic) -> None:
    bucket = json.loads(enforced.typed("plan", "--env", "tiny", "--json").stdout)["changes"]
    name = next(row["name"] for row in bucket if row["role"] == "bucket")
    enforced.run("up", "--env", "tiny")
    enforced.access(enforce=False)
    own = {"bindings": [{"role": "roles/storage.legacyBucketOwner", "members": [f"user:{ADA}"]}]}
    own["bindings"].append({"role": "roles/storage.objectAdmin", "members": [f"user:{ADA}"]})
    enforced.cloud.ask("PUT", f"/storage/v1/b/{name}/iam", own)
    account = f"{project_number('local-tests')}-compute@developer.gserviceaccount.com"
    may = {"policy": {"bindings": [{"role": "roles/iam.serviceAccountUser", "members": [f"user:{ADA}"]}]}}
    enforced.cloud.ask("POST", f"/iam/v1/projects/local-tests/serviceAccounts/{account}:setIamPolicy", may)
    kept = [role for role in OPERATORS if role not in {"roles/storage.admin", "roles/iam.serviceAccountUser"}]
    enforced.access(enforce=True, bindings={ADA: kept})
    seen = Seen(json.loads(enforced.typed("doctor", "--env", "tiny", "--json").stdout))  # nobody logs in to bare nodes
    assert seen["permissions"]["state"] == "ok", seen["permissions"]
    enforced.run("down", "--env", "tiny", "--yes")
    enforced.run("up", "--env", "tiny")


def test_the_roles_and_the_scope_are_printed(enforced: Clinic) -> None:
    said = enforced.doctor()["permissions"]
    assert said["evidence"][0] == f"scope {SCOPE}"
    assert [line.partition(":")[0] for line in said["evidence"][1:]] == OPERATORS


def test_the_private_form_needs_and_proves_the_roles_of_its_way_in(enforced: Clinic) -> None:
    enforced.write(FILE + "ssh: {login: os-login, reach: iap}\n")
    ways = [role.name for role in PRIVATE.values()]

    def found() -> dict[str, Any]:  # whatever ails the rest: gcloud itself need not be here
        return Seen(json.loads(enforced.typed("doctor", "--env", "tiny", "--json").stdout))["permissions"]

    lacking = found()
    assert (lacking["state"], lacking["class"]) == ("warning", "permission-denied")
    assert lacking["evidence"] == [f"{ways[1]}: iap.tunnelInstances.accessViaIAP"], "instanceAdmin may log in"
    assert f"--role={ways[1]}" in lacking["hint"]
    enforced.access(bindings={ADA: [*OPERATORS, *ways]})
    said = found()
    assert said["state"] == "ok"
    assert [line.partition(":")[0] for line in said["evidence"][1:]] == [*OPERATORS, *ways]


def test_a_probe_that_cannot_be_made_is_no_verdict(enforced: Clinic) -> None:
    enforced.access(disabled=["cloudresourcemanager.googleapis.com"])
    seen = enforced.doctor()
    assert (seen["permissions"]["state"], seen["permissions"]["class"]) == ("warning", "permissions-unknown")
    assert (seen["apis"]["state"], seen["apis"]["class"]) == ("warning", "api-disabled")


@pytest.mark.parametrize(
    ("reason", "kind", "hint"),
    [
        ("LOCATION_POLICY_VIOLATED", "location-closed", "ask Google to enable the zone"),
        ("LOCATION_ORG_POLICY_VIOLATED", "org-policy", "ask the organization's administrator"),
    ],
)
def test_a_zone_that_is_closed(enforced: Clinic, reason: str, kind: str, hint: str) -> None:
    enforced.access(zones={"us-central1-a": reason})
    enforced.doctor(code=3).is_broken("zone", kind, hint)


@pytest.mark.gcloud
def test_gclouds_own_identity_stands_beside_ours(enforced: Clinic) -> None:
    gcloud = shutil.which("gcloud")
    assert gcloud, "gcloud is installed by .ci/install"
    enforced.env["PATH"] += f":{Path(gcloud).parent}"
    config = enforced.home / "gcloud" / "configurations" / "config_default"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.parent.with_name("active_config").write_text("default")
    config.write_text("[core]\naccount = bob@example.com\nproject = other-project\n")
    seen = enforced.doctor()["gcloud"]
    assert (seen["state"], seen["class"]) == ("warning", "gcloud-identity")
    assert "gcloud is bob@example.com, tpuops is ada@example.com" in seen["what"]
    assert "gcloud's project: other-project" in seen["evidence"]
    assert f"gcloud config set account {ADA}" in seen["hint"]
