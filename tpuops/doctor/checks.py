"""Every check there is, in the order in which a reader should hear of it."""

from __future__ import annotations

from tpuops.doctor import credentials, permissions, project
from tpuops.doctor.finding import Check

CHECKS: tuple[Check, ...] = (
    *credentials.CHECKS,
    *project.CHECKS,
    *permissions.CHECKS,
)
"""One line a family."""
