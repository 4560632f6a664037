"""Where the APIs are: Google, or whatever serves them at another address. The only thing that differs between the two.

Pure data. Nothing here asks whether somebody answers there.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Base URLs without a slash at the end. `anonymous`: no credentials are looked for, and none are sent."""

    tpu: str
    compute: str
    storage: str
    anonymous: bool
    ssh_port: int = 22


def google() -> Endpoints:
    """Google's own."""
    return Endpoints(
        tpu="https://tpu.googleapis.com",
        compute="https://compute.googleapis.com",
        storage="https://storage.googleapis.com",
        anonymous=False,
    )


def at(url: str, ssh_port: int) -> Endpoints:
    """All three services below one URL, whose path may carry a key.

    Raises:
        ValueError: it is not a loopback address; credentials-free calls go nowhere else.
    """
    host = urlsplit(url).hostname or ""
    if not is_loopback(host):
        raise ValueError(f"{url} is not on this machine")
    base = url.rstrip("/")
    return Endpoints(tpu=base, compute=base, storage=base, anonymous=True, ssh_port=ssh_port)


def is_loopback(host: str) -> bool:
    """Whether an address or name can only mean this machine."""
    return host in {"localhost", "::1"} or (host.startswith("127.") and host.replace(".", "").isdigit())
