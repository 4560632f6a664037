"""Which login is in force and why: the search of Application Default Credentials, as a value. Sends nothing.

The order is google-auth's own (google-cloud.md 5.1). With an embedded cloud a login counts only where that very cloud
issued it: every address in it must lie behind the cloud's secret path key, so that no real login is ever shown to a
local program. The other way round, what an embedded cloud issued is refused for Google.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tpuops.cloud.endpoints import Endpoints, is_loopback
from tpuops.errors import AccessError

VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
QUOTA_VARIABLE = "GOOGLE_CLOUD_QUOTA_PROJECT"
LOGIN = "gcloud auth application-default login"

Source = Literal["variable", "gcloud", "machine", "nobody"]

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "authorized_user": ("client_id", "client_secret", "refresh_token"),
    "service_account": ("client_email", "private_key", "token_uri"),
    "impersonated_service_account": ("source_credentials", "service_account_impersonation_url"),
    "external_account": ("audience", "subject_token_type", "token_url", "credential_source"),
    "external_account_authorized_user": ("audience", "refresh_token", "token_url"),
    "gdch_service_account": ("private_key", "token_uri"),
}
_ADDRESSES = ("token_uri", "token_url", "token_info_url", "service_account_impersonation_url")


@dataclass(frozen=True, slots=True)
class Login:
    """A login and where it comes from. `document` holds its secrets: it is never shown.

    `kind` is the file's type, or `machine`. `passed_over` says why a login file that is named or there is not used.
    """

    source: Source
    why: str
    kind: str = ""
    path: Path | None = None
    account: str = ""
    project: str = ""
    quota_project: str = ""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    passed_over: AccessError | None = None


def in_force(endpoints: Endpoints) -> Login:
    """The login that calls to these endpoints use; `machine` means for Google: a metadata server, if there is one.

    Raises:
        AccessError: a file is named or found, and cannot be used.
    """
    if not endpoints.local:
        found = _of_file() or Login("machine", "no login file: a machine of Google's has one of its own", "machine")
        if any(is_loopback(urlsplit(address).hostname or "") for address in _addresses(found.document)):
            raise _unusable(found.path, "was issued by an embedded cloud and means nothing to Google", "local")
        return found
    return _local(endpoints)


def machine_server() -> str:
    """The metadata server that the environment names, without its scheme; empty where it names none."""
    return os.environ.get("GCE_METADATA_HOST", "")


def saved_file() -> Path:
    """Where gcloud keeps the login of `application-default login`."""
    folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
    return Path(folder) / "application_default_credentials.json"


def _local(endpoints: Endpoints) -> Login:
    """What the embedded cloud issued, if anything; calls without a login are its own affair."""
    try:
        found = _of_file()
    except AccessError as error:
        return Login("nobody", "no login is sent to the embedded cloud", passed_over=error)
    base = endpoints.tpu
    if found is None:
        if f"http://{machine_server()}".startswith(f"{base}/m/"):  # `cloud.env` names /no-machine
            return Login("machine", "GCE_METADATA_HOST names a machine of the embedded cloud", "machine")
        return Login("nobody", "no login is sent to the embedded cloud")
    addresses = list(_addresses(found.document))
    # A person's login names no address as Google's tools write it: only one that does can be the embedded cloud's.
    if addresses and _is_whole(found.document) and all(address.startswith(f"{base}/") for address in addresses):
        return found
    other = AccessError(
        f"the login in {found.path} was not issued by this embedded cloud, and is not shown to it",
        hint=f"`python -m tpuops.localcloud key` makes a key of this cloud's; point {VARIABLE} to its file",
        kind="credentials-foreign",
    )
    return Login("nobody", "no login is sent to the embedded cloud", path=found.path, passed_over=other)


def _is_whole(document: Mapping[str, Any]) -> bool:
    """Whether each login in it says itself where it is exchanged."""
    inner = document.get("source_credentials")
    source = document.get("credential_source")
    named = bool({"token_uri", "token_url"} & set(document)) or isinstance(inner, Mapping)
    plain = not isinstance(source, Mapping) or not {"executable", "environment_id", "certificate"} & set(source)
    return named and plain and (not isinstance(inner, Mapping) or _is_whole(inner))


def _addresses(document: Mapping[str, Any]) -> Iterator[str]:
    """Every address to which something of the login would be sent."""
    for name in _ADDRESSES:
        if document.get(name):
            yield str(document[name])
    inner = document.get("source_credentials")
    if isinstance(inner, Mapping):
        yield from _addresses(inner)


def _of_file() -> Login | None:
    named, saved = os.environ.get(VARIABLE), saved_file()
    if named == "":
        raise AccessError(f"{VARIABLE} is set to nothing", hint=f"unset {VARIABLE}", kind="credentials-none")
    if named is not None:
        return _read(Path(named), "variable", f"{VARIABLE} names it")
    if saved.is_file():
        return _read(saved, "gcloud", f"{LOGIN} wrote it, and {VARIABLE} is not set")
    return None


def _read(path: Path, source: Source, why: str) -> Login:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise AccessError(
            f"{VARIABLE} names {path}, and there is no such file",
            hint=f"unset {VARIABLE}, or put the file there; `{LOGIN}` makes a login of your own",
            kind="credentials-none",
        ) from error
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}", "broken") from error
    except ValueError as error:
        raise _unusable(path, "is no JSON file", "broken") from error
    return _described(document, path, source, why)


def _described(document: Any, path: Path, source: Source, why: str) -> Login:
    kind = str(document.get("type")) if isinstance(document, dict) else "none"
    if kind not in _NEEDED:
        raise _unusable(path, f"is no login: its type is {kind!r}, and Google knows {', '.join(_NEEDED)}", "broken")
    missing = [name for name in _NEEDED[kind] if not document.get(name)]
    if missing:
        raise _unusable(path, f"is not whole: it lacks {', '.join(missing)}", "broken")
    impersonated = str(document.get("service_account_impersonation_url", ""))
    target = impersonated.rpartition("/")[2].partition(":")[0]
    return Login(
        source=source,
        why=why,
        kind=kind,
        path=path,
        account=str(document.get("client_email") or target or document.get("account") or ""),
        project=str(document.get("project_id") or ""),
        quota_project=os.environ.get(QUOTA_VARIABLE) or str(document.get("quota_project_id") or ""),
        document=document,
    )


def _unusable(path: Path | None, what: str, kind: str) -> AccessError:
    way_out = f"run `{LOGIN}`" if os.environ.get(VARIABLE) is None else f"mend the file, or `unset {VARIABLE}`"
    return AccessError(f"the login in {path} {what}", hint=way_out, kind=f"credentials-{kind}")
