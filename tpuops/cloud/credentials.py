"""Who asks: Application Default Credentials for Google, nobody for local endpoints.

Never looks at a secret's content; what is wrong with a login becomes one `AccessError` with the command that mends it.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from tpuops.cloud.endpoints import Endpoints
from tpuops.errors import AccessError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "gcloud auth application-default login"


def credentials(endpoints: Endpoints) -> Credentials:
    """The credentials for a set of endpoints; reads files, and may ask a metadata server.

    Raises:
        AccessError: there are none, or they cannot be read.
    """
    from google.auth import credentials as auth  # noqa: PLC0415 - importing this room must cost nothing

    if endpoints.anonymous:
        return auth.AnonymousCredentials()
    from google.auth import exceptions  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            # google-auth warns of user credentials without a quota project; the API's own answer says it better.
            warnings.simplefilter("ignore")
            return _found()
    except exceptions.GoogleAuthError as error:
        raise refusal(error) from error


def _found() -> Credentials:
    """As `google.auth.default` looks, except that gcloud's own file is read without asking gcloud for a project.

    That question starts a process of half a second, for an answer that the environment file gives anyway.
    """
    import google.auth  # noqa: PLC0415

    folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
    saved = Path(folder) / "application_default_credentials.json"
    if "GOOGLE_APPLICATION_CREDENTIALS" not in os.environ and saved.is_file():
        quota = os.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT")
        found, _ = google.auth.load_credentials_from_file(str(saved), scopes=[SCOPE], quota_project_id=quota)
    else:
        found, _ = google.auth.default(scopes=[SCOPE])
    return found


def refusal(error: Exception) -> AccessError:
    """What a person does about an error of google-auth."""
    text = str(error)
    if "invalid_rapt" in text or "eauthentication" in text:
        return AccessError("Google wants this login to be confirmed again", evidence=[text], hint=f"run `{LOGIN}`")
    if "invalid_grant" in text or "expired or revoked" in text:
        return AccessError("the saved login has expired or was revoked", evidence=[text], hint=f"run `{LOGIN}`")
    if "getAccessToken" in text or "Unable to acquire impersonated" in text:
        return AccessError(
            "this login may not act as the service account it names",
            evidence=[text],
            hint="ask its owner for roles/iam.serviceAccountTokenCreator on the service account",
        )
    if "not found" in text and "credentials" in text:
        return AccessError("there are no Google credentials on this machine", evidence=[text], hint=f"run `{LOGIN}`")
    return AccessError("Google's login did not work", evidence=[text], hint=f"run `{LOGIN}`")
