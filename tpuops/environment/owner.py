"""Whose resources a command means: the user's own, or the team's. Reads the login name, nothing else."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping

from tpuops.environment.model import Environment
from tpuops.facts import names

VARIABLE = "TPUOPS_OWNER"
TEAM = "team"


def owner_of(environment: Environment, variables: Mapping[str, str] | None = None) -> str:
    """The owner's slug: `team`, else the person's (`TPUOPS_OWNER` where set, else the login name)."""
    if environment.owner == "team":
        return TEAM
    chosen = (os.environ if variables is None else variables).get(VARIABLE, "")
    slug = names.owner_slug(chosen or getpass.getuser())
    return slug if slug != TEAM else f"user-{TEAM}"  # a person of that name is not the team
