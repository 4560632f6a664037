"""Every check there is, in the order in which a reader should hear of it."""

from __future__ import annotations

from tpuops.doctor import bucket, clock, credentials, keys, network, offers, permissions, preflight, project, ssh, tools
from tpuops.doctor.finding import Check

CHECKS: tuple[Check, ...] = (
    *credentials.CHECKS,
    *project.CHECKS,
    *permissions.CHECKS,
    *offers.CHECKS,
    *network.CHECKS,
    *bucket.CHECKS,
    *keys.CHECKS,
    *ssh.CHECKS,
    *clock.CHECKS,
    *tools.CHECKS,
    *preflight.CHECKS,
)
"""One line a family."""
