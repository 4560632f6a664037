"""Login files as gcloud and Google write them, issued by the embedded cloud: into a user's private home."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tpuops.localcloud import key_files

from .conftest import ADA, Clinic

ROBOT = "robot@local-tests.iam.gserviceaccount.com"
AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/ci/providers/hub"
CANARY = "1//refresh-token-that-nobody-may-see"
PERSON = {
    "type": "authorized_user",
    "client_id": "764086051850-x.apps.googleusercontent.com",
    "client_secret": "d-FL95",
    "refresh_token": CANARY,
}
"""As gcloud writes it; where it is exchanged, an embedded cloud's login says itself."""


def person(clinic: Clinic, *, quota_project: str = "local-tests", **said: Any) -> Path:
    """Ada's login where `gcloud auth application-default login` puts it; `said`: what becomes of it (`logins`)."""
    clinic.access(logins={CANARY: {"email": ADA, **said}})
    document = _persons(clinic) | ({"quota_project_id": quota_project} if quota_project else {})
    return _saved(clinic, document)


def key(clinic: Clinic, email: str = ROBOT) -> Path:
    """A service account's key, named by GOOGLE_APPLICATION_CREDENTIALS."""
    return _named(clinic, json.loads(key_files.key_file(clinic.cloud.state, email)))


def impersonating(clinic: Clinic) -> Path:
    """Ada acts as the robot."""
    clinic.access(logins={CANARY: {"email": ADA}})
    url = f"{clinic.cloud.url}/iamcredentials/v1/projects/-/serviceAccounts/{ROBOT}:generateAccessToken"
    document = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": url,
        "source_credentials": _persons(clinic),
    }
    return _saved(clinic, document)


def federated(clinic: Clinic, subject: str) -> Path:
    """A CI job's token, in a file, exchanged for one of Google's."""
    token = clinic.home / "ci-token"
    token.write_text(subject)
    document = {
        "type": "external_account",
        "audience": AUDIENCE,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{clinic.cloud.url}/sts/v1/token",
        "credential_source": {"file": str(token)},
    }
    return _named(clinic, document)


def jwt(**claims: Any) -> str:
    """An outer identity's token."""
    parts = [{"alg": "none"}, {"sub": "repo:ada/digits", **claims}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".x"


def _persons(clinic: Clinic) -> dict[str, Any]:
    return {**PERSON, "token_uri": f"{clinic.cloud.url}/token"}


def _saved(clinic: Clinic, document: Any) -> Path:
    path = clinic.home / "gcloud" / "application_default_credentials.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def _named(clinic: Clinic, document: Any) -> Path:
    path = clinic.home / "login.json"
    path.write_text(json.dumps(document))
    clinic.env["GOOGLE_APPLICATION_CREDENTIALS"] = str(path)
    return path
