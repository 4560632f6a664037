"""Logins of every kind in a private home, broken one by one; doctor as a user's process."""

from __future__ import annotations

import json
import shlex
import time

import pytest

from . import logins
from .conftest import ADA, AUTH, Clinic, Seen

OWNERS = {ADA: ["roles/owner"], logins.ROBOT: ["roles/owner"]}
IMAGE = "projects/debian-cloud/global/images/family/debian-12"
LOGIN = "gcloud auth application-default login"


def test_without_enforcement_nobody_needs_a_login(clinic: Clinic) -> None:
    seen = clinic.doctor()
    assert (seen.document["healthy"], seen["credentials"]["state"]) == (True, "ok")


def test_in_the_shell_that_cloud_env_makes_it_is_the_same(clinic: Clinic) -> None:
    for line in clinic.typed("cloud.env").stdout.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            clinic.env[name] = shlex.split(value)[0] if value else ""
    assert clinic.env["GCE_METADATA_HOST"].endswith("/no-machine")
    done = clinic.typed_anew("doctor", "--env", "tiny", "--json")
    assert clinic.document(done)["healthy"]


def test_a_persons_login_is_named_with_where_it_comes_from(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings=OWNERS)
    path = logins.person(clinic)
    seen = clinic.doctor()
    assert ADA in seen["credentials"]["what"]
    assert f"file: {path}" in seen["credentials"]["evidence"]
    assert "GOOGLE_APPLICATION_CREDENTIALS is not set" in seen["credentials"]["evidence"][0]
    assert seen["scopes"]["state"] == "ok"
    assert "local-tests" in seen["quota-project"]["what"]
    said = json.dumps(seen.document)
    assert logins.CANARY not in said
    assert "ya29" not in said


def test_a_key_and_a_federated_login_are_told_apart(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings=OWNERS)
    logins.key(clinic)
    seen = clinic.doctor()["credentials"]
    assert seen["what"] == f"{logins.ROBOT}, by a service account's key"
    assert seen["evidence"][0] == "GOOGLE_APPLICATION_CREDENTIALS names it"
    principal = "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/ci/subject/me"
    clinic.access(bindings={principal: ["roles/owner"]})
    logins.federated(clinic, logins.jwt(sub="me"))
    assert clinic.doctor()["credentials"]["what"] == "somebody without an address, by a federated login"


def test_no_login(clinic: Clinic) -> None:
    clinic.access(enforce=True)
    seen = clinic.doctor(code=3)
    seen.is_broken("credentials", "credentials-none", "python -m tpuops.localcloud key")
    assert {seen[name]["state"] for name in ("project", "apis", "permissions", "zone")} == {"skipped"}


def test_a_variable_that_names_no_file(clinic: Clinic) -> None:
    clinic.access(enforce=True)
    clinic.env["GOOGLE_APPLICATION_CREDENTIALS"] = str(clinic.home / "gone.json")
    clinic.doctor(code=3).is_broken("credentials", "credentials-none", "unset GOOGLE_APPLICATION_CREDENTIALS")


def test_a_file_that_is_no_login(clinic: Clinic) -> None:
    clinic.access(enforce=True)
    logins.person(clinic).write_text("{oh")
    seen = clinic.doctor(code=3)
    seen.is_broken("credentials", "credentials-broken", LOGIN)
    assert "is no JSON file" in seen["credentials"]["what"]


def test_a_real_login_is_never_shown_to_the_embedded_cloud(clinic: Clinic) -> None:
    clinic.access(enforce=True)
    path = logins.person(clinic)
    real = json.loads(path.read_text())
    del real["token_uri"]  # as gcloud writes it
    path.write_text(json.dumps(real))
    clinic.doctor(code=3).is_broken("credentials", "credentials-foreign", "python -m tpuops.localcloud key")
    assert clinic.cloud.requests(service="identity") == []


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ({"error": "invalid_grant"}, "credentials-expired", "expired"),
        ({"error": "invalid_grant", "description": "Token has been expired or revoked."}, "credentials-revoked", "rev"),
        (
            {"error": "invalid_grant", "description": "reauth related error (invalid_rapt)", "subtype": "invalid_rapt"},
            "credentials-reauth",
            "confirmed again",
        ),
        ({"scopes": [f"{AUTH}userinfo.email", "openid"]}, "scopes-insufficient", "never granted"),
    ],
)
def test_a_login_that_google_does_not_take(clinic: Clinic, error: dict, kind: str, says: str) -> None:
    clinic.access(enforce=True, bindings=OWNERS)
    logins.person(clinic, **error)
    seen = clinic.doctor(code=3)
    seen.is_broken("credentials", kind, LOGIN)
    assert says in seen["credentials"]["what"]
    assert logins.CANARY not in json.dumps(seen.document)


def test_a_key_that_was_revoked_and_a_clock_that_is_wrong(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings=OWNERS)
    old = logins.key(clinic).read_text()
    logins.key(clinic)
    clinic.cloud.ask("POST", "/_cloud/reset")
    clinic.access(enforce=True, bindings=OWNERS)
    path = logins.key(clinic)
    path.write_text(old)
    clinic.doctor(code=3).is_broken("credentials", "credentials-key-revoked", "gcloud iam service-accounts keys create")
    late = (
        "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and"
        " exp values in the JWT claim."
    )
    refused = {
        "on": {"method": "identity.token"},
        "do": {"error": {"http": 400, "status": "invalid_grant", "message": late}},
    }
    clinic.cloud.add_faults([refused] * 99)
    logins.key(clinic)
    clinic.doctor(code=3).is_broken("credentials", "clock-wrong", "timedatectl")


def test_an_impersonation_that_is_not_granted_and_one_whose_api_is_off(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings={logins.ROBOT: ["roles/owner"]})
    logins.impersonating(clinic)
    clinic.doctor(code=3).is_broken("credentials", "impersonation-denied", f"add-iam-policy-binding {logins.ROBOT}")
    clinic.access(disabled=["iamcredentials.googleapis.com"])
    clinic.doctor(code=3).is_broken("credentials", "api-disabled", "services enable iamcredentials.googleapis.com")
    clinic.access(disabled=[], bindings={**OWNERS, ADA: ["roles/iam.serviceAccountTokenCreator"]})
    assert clinic.doctor()["credentials"]["what"] == f"{logins.ROBOT}, by a login that acts as a service account"


def test_federation_without_its_provider_or_with_a_dead_or_missing_token(clinic: Clinic) -> None:
    clinic.access(enforce=True, pools=[])
    logins.federated(clinic, "opaque")
    clinic.doctor(code=3).is_broken("credentials", "federation-provider", "workload-identity-pools")
    clinic.access(pools=[logins.AUDIENCE])
    logins.federated(clinic, logins.jwt(exp=int(time.time()) - 60))
    clinic.doctor(code=3).is_broken("credentials", "federation-token", "renew the token")
    (clinic.home / "ci-token").unlink()
    clinic.doctor(code=3).is_broken("credentials", "federation-token", "renew the token")


def test_an_account_that_was_disabled(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings=OWNERS)
    logins.key(clinic)
    error = {"http": 401, "status": "UNAUTHENTICATED", "reason": "ACCOUNT_STATE_INVALID", "message": "Account disabled"}
    clinic.cloud.add_faults([{"on": {"method": "compute.projects.get"}, "do": {"error": error}}] * 99)
    clinic.doctor(code=3).is_broken("credentials", "credentials-account", "as somebody else")


def test_on_a_machine_its_own_account_counts_with_the_scopes_it_was_made_with(clinic: Clinic) -> None:
    machine = {
        "name": "desk",
        "machineType": "zones/us-central1-a/machineTypes/e2-small",
        "disks": [
            {"boot": True, "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}}
        ],
        "networkInterfaces": [{"network": "global/networks/default"}],
        "serviceAccounts": [{"email": logins.ROBOT, "scopes": [f"{AUTH}devstorage.read_only"]}],
    }
    path = "/compute/v1/projects/local-tests/zones/us-central1-a/instances"
    clinic.cloud.ask("POST", path, machine)
    made = clinic.cloud.ask("GET", f"{path}/desk")
    clinic.env["GCE_METADATA_HOST"] = f"{clinic.cloud.url.removeprefix('http://')}/m/{made['id']}"
    done = clinic.typed_anew("doctor", "--env", "tiny", "--json")  # the server's address is read at import
    seen = Seen(clinic.document(done, 3))
    assert seen["credentials"]["what"] == f"{logins.ROBOT}, by this machine's own service account"
    seen.is_broken("scopes", "scopes-insufficient", "set-service-account NAME --scopes=cloud-platform")
    assert "devstorage.read_only" in seen["scopes"]["evidence"][0]
