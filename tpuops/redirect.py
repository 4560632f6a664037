"""The shell variables that send gcloud and Google's clients to the embedded cloud, and nowhere else.

Fails closed: every API that the installed gcloud knows is overridden (those that the embedded cloud does not serve
end in its 404), real credentials are out of reach, and the project is called `local-...`, which Google would refuse.
Where gcloud is installed but its list of APIs cannot be read, nothing is printed at all. Writes one file: the token.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from tpuops.errors import TpuopsError

SERVED = {
    "tpu": "/",
    "compute": "/compute/v1/",
    "storage": "/storage/v1/",
    "cloudquotas": "/cloudquotas/",
    "cloudresourcemanager": "/resourcemanager/",
    "iam": "/iam/",
    "iamcredentials": "/iamcredentials/",
    "oslogin": "/oslogin/",
    "secretmanager": "/secretmanager/",
    "serviceusage": "/serviceusage/",
}
"""gcloud's names of the APIs that the embedded cloud serves, and where (facts: google-cloud.md 7.1)."""

UNSET = (
    "GOOGLE_API_USE_CLIENT_CERTIFICATE",
    "GOOGLE_API_USE_MTLS_ENDPOINT",
    "GOOGLE_CLOUD_UNIVERSE_DOMAIN",
    "CLOUDSDK_ACTIVE_CONFIG_NAME",
    "CLOUDSDK_AUTH_DISABLE_CREDENTIALS",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
    "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT",
    "CLOUDSDK_CONTEXT_AWARE_USE_CLIENT_CERTIFICATE",
    "CLOUDSDK_CORE_ACCOUNT",
    "CLOUDSDK_CORE_UNIVERSE_DOMAIN",
)
"""What could lend a real identity, or another Google, to a command in this shell."""


ACCESS = "access-token"
"""The file below `scratch` with what gcloud sends as its token: an upload loses the path of its endpoint, and with it
the key, so that the embedded cloud takes the key as a bearer token there."""


NO_LOGIN = "no-login-of-google"
"""Where Google's clients are told to find their login, below `scratch`: nothing is there, so they find no other either,
also where CLOUDSDK_CONFIG has gone astray."""


def write_token(url: str, scratch: Path) -> None:
    """Write the token file for the embedded cloud at `url`, readable by its owner only."""
    handle = os.open(scratch / ACCESS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(url.rstrip("/").rpartition("/")[2])


def exports(url: str, scratch: Path, project: str = "local-tpuops") -> str:
    """The lines for `eval` in a POSIX shell. Arguments and errors as for `variables`."""
    lines = [f"unset {' '.join(UNSET)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(url, scratch, project).items()]
    return "\n".join(lines) + "\n"


def variables(url: str, scratch: Path, project: str = "local-tpuops") -> Mapping[str, str]:
    """What must be set for the embedded cloud at `url`; gcloud keeps its configuration below `scratch`.

    Raises `TpuopsError` where gcloud is installed but does not say which APIs it knows.
    """
    if not project.startswith("local-"):
        raise ValueError(f"{project}: a project on the embedded cloud is called local-...")
    endpoints = {api: f"{url}/not-served/{api}/" for api in _known_to_gcloud()}
    endpoints |= {api: url + path for api, path in SERVED.items()}
    metadata = url.removeprefix("http://") + "/no-machine"
    return {
        "CLOUDSDK_CONFIG": str(scratch / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": project,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_PASS_CREDENTIALS_TO_GSUTIL": "false",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(scratch / ACCESS),
        "CLOUDSDK_AUTH_TOKEN_HOST": f"{url}/token",
        "GOOGLE_APPLICATION_CREDENTIALS": str(scratch / NO_LOGIN),
        "GOOGLE_CLOUD_PROJECT": project,
        "NO_GCE_CHECK": "true",
        "GCE_METADATA_HOST": metadata,
        "GCE_METADATA_IP": metadata,
        "GCE_METADATA_ROOT": metadata,
        "STORAGE_EMULATOR_HOST": url,
        "TENSORSTORE_GCS_HTTP_URL": url,
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": value for api, value in sorted(endpoints.items())},
    }


def _known_to_gcloud() -> frozenset[str]:
    """The names of gcloud's `api_endpoint_overrides` properties, read from its source; none where it is absent."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        return frozenset()
    source = Path(gcloud).resolve().parents[1] / "lib/googlecloudsdk/core/properties.py"
    try:
        section = source.read_text("utf-8").partition("class _SectionApiEndpointOverrides(")[2].partition("\nclass ")[0]
    except OSError:
        section = ""
    names = frozenset(re.findall(r"self\._Add\(\s*'(\w+)'", section))
    if not names >= SERVED.keys():
        raise TpuopsError(
            f"the APIs that gcloud can be redirected for cannot be read from {source}",
            hint="without that list a forgotten API would be Google's own; use Google Cloud SDK 528",
        )
    return names
