"""One check in this process, for what its process need not be started for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from unittest.mock import patch

from tpuops.doctor.finding import Finding
from tpuops.doctor.patient import Admission, Patient
from tpuops.embedded import Stage
from tpuops.environment import load

from .conftest import Clinic


def look(clinic: Clinic, check: Callable[[Patient], Awaitable[Finding]]) -> Finding:
    """What a check finds in the clinic's environment."""
    stage = Stage(clinic.cloud.url, clinic.cloud.ssh_port, clinic.cloud.pid)
    environment = load(clinic.folder / "environments" / "tiny.yaml")

    async def within() -> Finding:
        # Confinement would hold for the tests after this one too.
        with patch("tpuops.doctor.patient.confine"), patch.dict(os.environ, TPUOPS_OWNER=clinic.env["TPUOPS_OWNER"]):
            patient = Admission(environment, stage, clinic.folder / "state", "--env tiny").admit()
        return await check(patient)

    return asyncio.run(within())
