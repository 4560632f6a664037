"""OAuth's and the metadata server's paths, and the cloud's own below `/_cloud/`. Data only."""

from __future__ import annotations

from tpuops.localcloud.core import admin
from tpuops.localcloud.core.identity import metadata, tokens
from tpuops.localcloud.core.routes import Route

_METADATA = "/m/{machine}/computeMetadata/v1"
METHODS = (
    Route("POST", "/token", "identity.token", tokens.token, "assertions are read, not verified"),
    Route("GET", "/tokeninfo", "identity.tokeninfo", tokens.tokeninfo),
    Route("POST", "/tokeninfo", "identity.tokeninfo", tokens.tokeninfo),
    Route("GET", "/m/{machine}", "metadata.ping", metadata.ping),
    Route("GET", "/m/{machine}/", "metadata.ping", metadata.ping),
    Route("PUT", f"{_METADATA}/instance/guest-attributes/{{path:path}}", "metadata.put", metadata.put_guest),
    Route("GET", f"{_METADATA}/", "metadata.get", metadata.get),
    Route("GET", f"{_METADATA}/{{path:path}}", "metadata.get", metadata.get),
    Route("GET", "/_cloud/status", "cloud.status", admin.status),
    Route("GET", "/_cloud/requests", "cloud.requests", admin.requests),
    Route("GET", "/_cloud/faults", "cloud.faults", admin.faults),
    Route("POST", "/_cloud/faults", "cloud.addFaults", admin.add_faults),
    Route("POST", "/_cloud/reset", "cloud.reset", admin.reset),
)
