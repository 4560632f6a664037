"""The environment variables a machine's processes begin with: a pure function, starting from nothing.

Every client library that can be told where Google is, is told that it is here; no variable of the host is copied but
what names the package index.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from .core.events import MachineSpec
from .disk import PYTHON, REHEARSAL, Interpreter
from .package_index import NO_PROXY

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def surroundings(
    spec: MachineSpec, base_url: str, interpreter: Interpreter, index: Mapping[str, str], cores: int | None = None
) -> dict[str, str]:
    """What every login and script on the machine finds set. `cores` caps the devices; default: this host's."""
    url = base_url.rstrip("/")
    parts = urlsplit(url)
    metadata = f"{parts.netloc}{parts.path}/m/{spec.id}"
    return {
        **index,
        "PATH": f"{REHEARSAL}/bin:{PYTHON}/bin:{interpreter.prefix}/bin:{_SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{REHEARSAL}/site",
        "VIRTUAL_ENV": PYTHON,
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "NO_PROXY": NO_PROXY,
        "no_proxy": NO_PROXY,
        "TPUOPS_REHEARSAL": "1",
        "STORAGE_EMULATOR_HOST": url,
        "TENSORSTORE_GCS_HTTP_URL": url,
        "GCE_METADATA_HOST": metadata,
        "GCE_METADATA_IP": metadata,
        "GCE_METADATA_ROOT": metadata,
        **_gcloud(spec, url),
        **_devices(spec.devices, cores or os.cpu_count() or 1),
    }


def _gcloud(spec: MachineSpec, url: str) -> dict[str, str]:
    return {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{url}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{url}/storage/v1/",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_PROJECT": spec.project,
        "CLOUDSDK_COMPUTE_ZONE": spec.zone,
        "GOOGLE_CLOUD_PROJECT": spec.project,
    }


def _devices(devices: int, cores: int) -> dict[str, str]:
    """CPU devices in place of the accelerator's: more of them than cores hang now and then (facts/rehearsal.md)."""
    if not devices:
        return {}
    count = min(devices, cores)
    return {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
