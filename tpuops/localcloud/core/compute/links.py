"""Compute's resource links: built with the placeholder of wire.py, read by their path's end, whatever their host."""

from __future__ import annotations

from tpuops.localcloud.core.wire import LINK


def link(path: str) -> str:
    """The self link of `projects/...`."""
    return f"{LINK}compute/v1/{path}"


def last(url: str) -> str:
    """The last part of a link: full, relative or bare names all name the same thing (google-cloud.md 3.1.1)."""
    return url.rstrip("/").rsplit("/", 1)[-1]


def zone_link(project: str, zone: str) -> str:
    """The link of a zone."""
    return link(f"projects/{project}/zones/{zone}")


def project_path(url: str, project: str) -> str:
    """`projects/P/...` of a link; a relative one belongs to `project`."""
    found = url.find("projects/")
    return url[found:] if found >= 0 else f"projects/{project}/{url.lstrip('/')}"
