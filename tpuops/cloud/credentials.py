"""Who asks: the login in force as google-auth's credentials, and what is wrong with one that does not work.

Never looks at a secret's content; what is wrong with a login becomes one `AccessError` with the command that mends it.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpuops.cloud import login as logins
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.login import LOGIN, Login
from tpuops.errors import AccessError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def credentials(endpoints: Endpoints) -> Credentials:
    """The credentials for a set of endpoints; reads files, and may ask a metadata server.

    Raises:
        AccessError: there are none, or they cannot be read.
    """
    from google.auth import credentials as auth  # noqa: PLC0415 - importing this room must cost nothing

    login = logins.in_force(endpoints)
    if login.source == "nobody":
        return auth.AnonymousCredentials()
    from google.auth import exceptions  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            # google-auth warns of user credentials without a quota project; the API's own answer says it better.
            warnings.simplefilter("ignore")
            return _confined(login) if endpoints.local else _googles(login)
    except (exceptions.GoogleAuthError, ValueError) as error:
        raise refusal(error) from error


def _googles(login: Login) -> Credentials:
    """As `google.auth.default` finds them, except that gcloud is not asked for a project.

    That question starts a process of half a second, for an answer that the environment file gives anyway.
    """
    import google.auth  # noqa: PLC0415

    if login.source == "machine":
        found, _ = google.auth.default(scopes=[SCOPE])
    else:
        quota = login.quota_project or None
        found, _ = google.auth.load_credentials_from_dict(dict(login.document), scopes=[SCOPE], quota_project_id=quota)
    return found


def _confined(login: Login) -> Credentials:
    """A login that an embedded cloud issued: its tokens come from there, and are shown to nobody else."""
    from tpuops.cloud.confined import Confined  # noqa: PLC0415 - loads google-auth

    return Confined(_issued(login.document) if login.document else _of_machine(), login.quota_project)


def _of_machine() -> Credentials:
    from google.auth import compute_engine  # noqa: PLC0415

    return compute_engine.Credentials(scopes=[SCOPE])


def _issued(document: Mapping[str, Any]) -> Credentials:
    """google-auth's own class for a file, told to ask where the file says (for a person's it would ask Google)."""
    from google.auth import identity_pool, impersonated_credentials  # noqa: PLC0415
    from google.oauth2 import credentials as persons  # noqa: PLC0415
    from google.oauth2 import service_account  # noqa: PLC0415

    kind = document["type"]
    if kind == "service_account":
        return service_account.Credentials.from_service_account_info(document, scopes=[SCOPE])
    if kind == "external_account":
        return identity_pool.Credentials.from_info(document, scopes=[SCOPE])
    if kind == "impersonated_service_account":
        url = str(document["service_account_impersonation_url"])
        target = url.rpartition("/")[2].partition(":")[0]
        source = _issued(document["source_credentials"])
        return impersonated_credentials.Credentials(
            source, target, [SCOPE], document.get("delegates"), iam_endpoint_override=url
        )
    fields = {name: document.get(name) for name in ("refresh_token", "token_uri", "client_id", "client_secret")}
    return persons.Credentials(None, **fields, scopes=[SCOPE])


_REFUSALS: tuple[tuple[str, str, str, str], ...] = (
    # What google-auth says, the class, the same in plain words, what to do.
    (
        r"Anonymous credentials cannot be refreshed",
        "credentials-none",
        "a login is asked for, and there is none",
        "`tpuops doctor` says which are looked for",
    ),
    (
        r"invalid_rapt|eauthentication",
        "credentials-reauth",
        "Google wants this login to be confirmed again",
        f"run `{LOGIN}`",
    ),
    (
        r"invalid_scope",
        "scopes-insufficient",
        "the saved login was never granted the cloud-platform scope",
        f"run `{LOGIN}` and leave every box ticked",
    ),
    (
        r"short-lived token|reasonable timeframe",
        "clock-wrong",
        "Google finds this machine's clock wrong by minutes",
        "set the clock (`timedatectl set-ntp true`), then try again",
    ),
    (
        r"Invalid JWT Signature|account not found|disabled_client|deleted_client",
        "credentials-key-revoked",
        "Google does not know this service account's key any more",
        "ask for a new key file (`gcloud iam service-accounts keys create FILE --iam-account=ACCOUNT`), or `unset "
        f"{logins.VARIABLE}` and run `{LOGIN}`",
    ),
    (
        r"invalid_target",
        "federation-provider",
        "the workload identity provider that this login names is not there, or is switched off",
        "`gcloud iam workload-identity-pools providers describe` shows its state; its administrator can undelete it",
    ),
    (
        r"stale to sign-in|subject.token|[Tt]oken_data|File '?[^ ]* was not found",
        "federation-token",
        "the outer identity's token, which this login exchanges, is missing or has expired",
        "renew the token that `credential_source` of the login file names (in a CI job: start the job anew)",
    ),
    (
        r"getAccessToken|Unable to acquire impersonated",
        "impersonation-denied",
        "this login may not act as the service account it names",
        "ask its owner for roles/iam.serviceAccountTokenCreator on the service account",
    ),
    (
        r"expired or revoked",
        "credentials-revoked",
        "the saved login has expired or was revoked",
        f"run `{LOGIN}`",
    ),
    (r"invalid_grant", "credentials-expired", "the saved login has expired or was revoked", f"run `{LOGIN}`"),
    (
        r"(?s)credentials.*not found|not found.*credentials",
        "credentials-none",
        "there are no Google credentials on this machine",
        f"run `{LOGIN}`",
    ),
)


def refusal(error: Exception) -> AccessError:
    """What a person does about an error of google-auth."""
    text = _text(error)
    if "SERVICE_DISABLED" in text and "iamcredentials" in text:
        what, hint = (
            "an API is not enabled in this project",
            "run `gcloud services enable iamcredentials.googleapis.com`",
        )
        return AccessError(what, evidence=[text], hint=hint, kind="api-disabled")
    for pattern, kind, what, hint in _REFUSALS:
        if re.search(pattern, text):
            return AccessError(what, evidence=[text], hint=hint, kind=kind)
    return AccessError(
        "Google's login did not work", evidence=[text], hint=f"run `{LOGIN}`", kind="credentials-refused"
    )


_SECRET = re.compile(r"\b(?:ya29\.|1//|eyJ|GOCSPX-)[\w./+=-]{8,}")
"""Access and refresh tokens, signed assertions, client secrets: what an answer quotes of them is not passed on."""


def _text(error: Exception) -> str:
    """What it says in one line: its first words, then what the answer's own JSON adds to them."""
    words, *more = [str(part) for part in error.args] or [str(error)]
    said = [words, *(text for text in map(_said, more) if text and text not in words)]
    return _SECRET.sub("[hidden]", " ".join(" ".join(said).split()))[:1000]


def _said(answer: str) -> str:
    try:
        found = json.loads(answer)["error"]
        if not isinstance(found, dict):
            return f"{found}"
        reasons = [str(detail.get("reason", "")) for detail in found.get("details", [])]
        services = [str(detail.get("metadata", {}).get("service", "")) for detail in found.get("details", [])]
        return " ".join([str(found.get("message", "")), *reasons, *services]).strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        subtype = re.search(r"invalid_rapt", answer)
        return subtype[0] if subtype else ""
