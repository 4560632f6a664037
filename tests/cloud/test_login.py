"""Which login is in force: google-auth's order, and the wall between Google's logins and an embedded cloud's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpuops.cloud.confined import Confined
from tpuops.cloud.credentials import credentials
from tpuops.cloud.endpoints import at, google
from tpuops.cloud.login import in_force
from tpuops.errors import AccessError

BASE = "http://127.0.0.1:8080/k-secret"
HERE = at(BASE, 22)
PERSON = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "SECRET"}
IMPERSONATE = "/v1/projects/-/serviceAccounts/robot@p.iam.gserviceaccount.com:generateAccessToken"


@pytest.fixture
def saved(home: Path) -> Path:
    path = home / "gcloud" / "application_default_credentials.json"
    path.parent.mkdir()
    return path


def impersonating(source: dict[str, Any], base: str) -> dict[str, Any]:
    return {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": f"{base}{IMPERSONATE}",
        "source_credentials": source,
    }


def federated(base: str, source: dict[str, Any]) -> dict[str, Any]:
    fields = {"audience": "a", "subject_token_type": "t", "token_url": f"{base}/sts/v1/token"}
    return {"type": "external_account", **fields, "credential_source": source}


def test_the_variable_outranks_gclouds_own_file(saved, home, monkeypatch):
    saved.write_text(json.dumps({**PERSON, "account": "ada@x", "quota_project_id": "p"}))
    assert (in_force(google()).source, in_force(google()).account, in_force(google()).quota_project) == (
        "gcloud",
        "ada@x",
        "p",
    )
    named = home / "named.json"
    named.write_text(json.dumps(PERSON))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(named))
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "q")
    assert (in_force(google()).source, in_force(google()).path, in_force(google()).quota_project) == (
        "variable",
        named,
        "q",
    )


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("{oh", "credentials-broken", "is no JSON file"),
        ("[1]", "credentials-broken", "is no login"),
        ('{"type": "odd"}', "credentials-broken", "'odd'"),
        ('{"type": "authorized_user", "client_id": "c"}', "credentials-broken", "client_secret, refresh_token"),
        (json.dumps({**PERSON, "token_uri": f"{BASE}/token"}), "credentials-local", "embedded cloud"),
        (json.dumps(impersonating({**PERSON, "token_uri": f"{BASE}/token"}, "https://x")), "credentials-local", "emb"),
        (json.dumps(federated("http://localhost:80", {"file": "f"})), "credentials-local", "embedded cloud"),
    ],
)
def test_what_cannot_be_used_for_google_is_refused_with_a_way_out(saved, text, kind, says):
    saved.write_text(text)
    with pytest.raises(AccessError) as caught:
        credentials(google())
    assert (caught.value.kind, says in caught.value.message) == (kind, True), caught.value.message
    assert "gcloud auth application-default login" in caught.value.hint
    assert "SECRET" not in repr(caught.value.args)


@pytest.mark.parametrize(
    ("document", "issued_here"),
    [
        (PERSON, False),
        ({**PERSON, "token_uri": f"{BASE}/token"}, True),
        ({**PERSON, "token_uri": f"{BASE}-other/token"}, False),
        ({**PERSON, "token_uri": "http://127.0.0.1:8080/token"}, False),
        ({**PERSON, "token_uri": "https://oauth2.googleapis.com/token"}, False),
        (impersonating({**PERSON, "token_uri": f"{BASE}/token"}, BASE), True),
        (impersonating(PERSON, BASE), False),
        (impersonating({**PERSON, "token_uri": f"{BASE}/token"}, "https://iamcredentials.googleapis.com"), False),
        (federated(BASE, {"file": "/nowhere"}), True),
        (federated(BASE, {"executable": {"command": "print-token"}}), False),
        (federated("https://sts.googleapis.com", {"file": "/nowhere"}), False),
    ],
)
def test_an_embedded_cloud_sees_only_what_it_issued(saved, document, issued_here):
    saved.write_text(json.dumps(document))
    found, who = in_force(HERE), credentials(HERE)
    if issued_here:
        assert (found.source, type(who)) == ("gcloud", Confined)
    else:
        assert (found.source, type(who).__name__) == ("nobody", "AnonymousCredentials")
        assert found.passed_over is not None
        assert found.passed_over.kind == "credentials-foreign"
    assert "SECRET" not in repr(found)


def test_a_machine_of_the_embedded_cloud_is_asked_only_behind_its_key(monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:8080/k-secret/m/1-0")
    assert in_force(HERE).source == "machine"
    no_machine = "127.0.0.1:8080/k-secret/no-machine"  # what `cloud.env` exports
    for other in (no_machine, "169.254.169.254", "127.0.0.1:8080/m/1-0", "127.0.0.1:8080/k-secret-too/m/1-0"):
        monkeypatch.setenv("GCE_METADATA_HOST", other)
        assert in_force(HERE).source == "nobody"
