"""Where the APIs are: Google, or whatever serves them at another address. The only thing that differs between the two.

Pure data. Nothing here asks whether somebody answers there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Base URLs without a slash at the end. `local`: an embedded cloud, to which no login but its own is ever sent.

    `further`: the APIs around machines, by the names that `rest` knows them by.
    """

    tpu: str
    compute: str
    storage: str
    local: bool
    ssh_port: int = 22
    further: Mapping[str, str] = field(default_factory=dict)

    def of(self, service: str) -> str:
        """Where a service is."""
        known = {"tpu": self.tpu, "compute": self.compute, "storage": self.storage}
        return known.get(service) or self.further[service]


FURTHER: Mapping[str, str] = {
    "serviceusage": "https://serviceusage.googleapis.com",
    "resourcemanager": "https://cloudresourcemanager.googleapis.com",
    "cloudquotas": "https://cloudquotas.googleapis.com",
    "iam": "https://iam.googleapis.com",
    "oslogin": "https://oslogin.googleapis.com",
    "secretmanager": "https://secretmanager.googleapis.com",
}
"""The embedded cloud serves each of them below a folder of that name."""

OAUTH = "https://oauth2.googleapis.com"


def google() -> Endpoints:
    """Google's own."""
    return Endpoints(
        tpu="https://tpu.googleapis.com",
        compute="https://compute.googleapis.com",
        storage="https://storage.googleapis.com",
        local=False,
        further={**FURTHER, "oauth2": OAUTH},
    )


def at(url: str, ssh_port: int) -> Endpoints:
    """All services below one URL, whose path may carry a key.

    Raises:
        ValueError: it is not a loopback address; an embedded cloud is nowhere else.
    """
    host = urlsplit(url).hostname or ""
    if not is_loopback(host):
        raise ValueError(f"{url} is not on this machine")
    base = url.rstrip("/")
    further = {**{service: f"{base}/{service}" for service in FURTHER}, "oauth2": base}
    return Endpoints(tpu=base, compute=base, storage=base, local=True, ssh_port=ssh_port, further=further)


def is_loopback(host: str) -> bool:
    """Whether an address or name can only mean this machine."""
    return host in {"localhost", "::1"} or (host.startswith("127.") and host.replace(".", "").isdigit())
