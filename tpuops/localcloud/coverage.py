"""The coverage table: every method that is served and what about it is imitated, made from the routes themselves.

`python -m tpuops.localcloud coverage > tests/localcloud/coverage.md` writes it anew. Says nothing of its own but what
is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpuops.localcloud.core.routes import Route
from tpuops.localcloud.core.table import ROUTES

TITLES: Mapping[str, str] = {
    "tpu": "Cloud TPU API v2 and v2alpha1",
    "compute": "Compute Engine API v1",
    "storage": "Cloud Storage JSON API v1",
    "serviceusage": "Service Usage API v1",
    "cloudquotas": "Cloud Quotas API v1",
    "iam": "IAM API v1",
    "resourcemanager": "Resource Manager API v1",
    "oslogin": "OS Login API v1",
    "iap": "Identity-Aware Proxy, TCP forwarding",
    "iamcredentials": "IAM Service Account Credentials API v1",
    "secretmanager": "Secret Manager API v1",
    "identity": "OAuth",
    "metadata": "Metadata server of a machine",
    "cloud": "The embedded cloud's own paths",
}
LEFT_OUT: Mapping[str, Sequence[str]] = {
    "tpu": (
        "v1 and v1alpha1 (TPU Nodes of two machines): Google refuses new ones",
        "v2alpha1 `reservations` holds nothing; `trafficConfig` and boot disks are taken and ignored",
    ),
    "compute": ("managed instance groups, load balancing, snapshots, reservations and everything else not named",),
    "storage": (
        "ACLs, notifications, HMAC keys, folders with content, the XML API and everything else not named",
        "lifecycle rules act late, as the profile's `lifecycle_s` says (a minute, realistic a day); one that aborts "
        "multipart uploads has nothing to do",
        "limits on how often a bucket's own settings change, decompression of gzip on the way out, locks on retention",
    ),
}
HEAD = """# What the embedded cloud serves

Generated from the routes by `python -m tpuops.localcloud coverage`; a test keeps it current. Whatever is not named is
answered with 404. Everywhere imitated: machines are sandboxes on this host, an address is a loopback address, nothing
costs money, and nothing is slow unless the latency profile or a fault script makes it so. An idle machine takes about
31 MiB (`python tests/benchmarks/localcloud.py --machines 100`).
"""


def table() -> str:
    """The table as Markdown."""
    parts = [HEAD]
    for service, title in TITLES.items():
        routes = [route for route in ROUTES.all if route.service == service]
        if routes:
            parts.append(_section(service, title, routes))
    return "\n".join(parts)


def _section(service: str, title: str, routes: Sequence[Route]) -> str:
    lines = [f"## {title}", "", "| method | path | imitated |", "|---|---|---|"]
    methods: dict[str, list[Route]] = {}
    for route in routes:
        methods.setdefault(route.method, []).append(route)
    for method, found in methods.items():
        paths = "<br>".join(f"`{route.verb} {route.template}`" for route in found)
        imitated = "; ".join(dict.fromkeys(route.imitated for route in found if route.imitated))
        lines.append(f"| {method} | {paths} | {imitated} |")
    lines += ["", *(f"- Left out: {line}." for line in LEFT_OUT.get(service, ()))]
    return "\n".join(lines).rstrip() + "\n"
