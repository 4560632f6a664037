"""What a person has already told Google's tools: the project and the zone they usually mean. Files only; asks nobody.

The order of the project is google-auth's own: a variable, the login's file, then gcloud's active configuration
(google-cloud.md 5.1). gcloud itself is not started: it takes half a second to say what its files say.
"""

from __future__ import annotations

import configparser
import os
from dataclasses import dataclass
from pathlib import Path

from tpuops.cloud import endpoints, login
from tpuops.errors import AccessError


@dataclass(frozen=True, slots=True)
class Habit:
    """A value and where it comes from; both empty where nobody said anything."""

    value: str = ""
    why: str = ""


def project() -> Habit:
    """The project that Google's own tools would take."""
    for variable in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        if os.environ.get(variable):
            return Habit(os.environ[variable], variable)
    try:
        found = login.in_force(endpoints.google())
    except AccessError:
        found = None
    if found is not None and (found.project or found.quota_project):
        return Habit(found.project or found.quota_project, f"the login in {found.path}")
    return _configured("core", "project")


def zone() -> Habit:
    """The zone that gcloud would take."""
    if os.environ.get("CLOUDSDK_COMPUTE_ZONE"):
        return Habit(os.environ["CLOUDSDK_COMPUTE_ZONE"], "CLOUDSDK_COMPUTE_ZONE")
    return _configured("compute", "zone")


def _configured(section: str, key: str) -> Habit:
    folder = Path(os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    try:
        name = os.environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or (folder / "active_config").read_text("utf-8").strip()
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string((folder / "configurations" / f"config_{name}").read_text("utf-8"))
        value = parser.get(section, key, fallback="")
    except (OSError, UnicodeDecodeError, configparser.Error):
        return Habit()
    return Habit(value, f"gcloud's configuration {name}") if value else Habit()
