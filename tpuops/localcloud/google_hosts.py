"""Names of Google's API hosts that must lead nowhere inside a machine, as lines of its /etc/hosts.

A rehearsal must never reach production, not even through a client library that ignores every endpoint variable. A hosts
file knows no wildcards, so the names are listed: those this product and usual training code speak to.
"""

from __future__ import annotations

NOWHERE = ("127.0.0.1", "::1")
_SERVICES = (
    "accesscontextmanager aiplatform analytics apikeys appengine artifactregistry autoscaling bigquery "
    "bigquerystorage bigtable bigtableadmin binaryauthorization billingbudgets cloudasset cloudbilling "
    "cloudbuild cloudfunctions cloudkms cloudprofiler cloudquotas cloudresourcemanager cloudscheduler "
    "cloudtasks cloudtrace composer compute container containerregistry datacatalog dataflow dataproc "
    "datastore deploymentmanager dns drive edgecontainer eventarc essentialcontacts file firestore gcr gkehub "
    "iam iamcredentials iap language logging memcache ml monitoring networkmanagement networkservices "
    "networksecurity notebooks oauth2 orgpolicy osconfig oslogin people policyanalyzer policysimulator private "
    "pubsub recommender redis restricted run runtimeconfig secretmanager securitycenter servicecontrol "
    "servicedirectory servicemanagement servicenetworking serviceusage sheets sourcerepo spanner speech "
    "sqladmin storage storagetransfer sts tpu translate videointelligence vision vpcaccess workflows "
    "workstations www"
)
_OTHERS = (
    "accounts.google.com", "appengine.google.com", "cloud.google.com", "commondatastorage.googleapis.com",
    "console.cloud.google.com", "gcr.io", "googleapis.com", "metadata", "metadata.goog", "metadata.google.internal",
    "ssh.cloud.google.com", "ssh.cloudproxy.app", "storage.cloud.google.com", "storage-download.googleapis.com",
    "storage-upload.googleapis.com", "tunnel.cloudproxy.app", "us-docker.pkg.dev",
)  # fmt: skip


def google_hosts() -> tuple[str, ...]:
    """Every name that leads nowhere, plain and in its mutual-TLS form."""
    plain = [f"{service}.googleapis.com" for service in _SERVICES.split()]
    mutual = [f"{service}.mtls.googleapis.com" for service in _SERVICES.split()]
    return tuple(sorted({*plain, *mutual, *_OTHERS}))


def hosts_file(hostname: str, address: str) -> str:
    """The machine's /etc/hosts."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"{address} {hostname}"]
    lines += [f"{nowhere} {name}" for nowhere in NOWHERE for name in google_hosts()]
    return "\n".join(lines) + "\n"
