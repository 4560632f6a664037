"""How long a look may take, and what becomes of a check that does not end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpuops.doctor.checks import CHECKS
from tpuops.doctor.finding import State
from tpuops.doctor.patient import Admission
from tpuops.doctor.treat import looked
from tpuops.embedded import Stage
from tpuops.environment import load

from . import logins
from .conftest import ADA, Clinic


def test_a_healthy_setup_takes_as_long_as_its_slowest_check(clinic: Clinic) -> None:
    clinic.access(enforce=True, bindings={ADA: ["roles/owner"]})
    logins.person(clinic)
    document = clinic.doctor().document
    slowest = max(row["seconds"] for row in document["findings"])
    assert document["seconds"] <= 1.5 * slowest, document
    assert sum(row["seconds"] for row in document["findings"]) > 2 * slowest  # they did run beside each other


async def test_a_service_that_does_not_answer_is_named_and_delays_nobody_else(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = "resourcemanager.projects.testIamPermissions"
    clinic.cloud.add_faults([{"on": {"method": method}, "do": {"delay_s": 30}}])
    monkeypatch.setattr("tpuops.doctor.patient.confine", lambda place: None)
    file = clinic.folder / "environments" / "tiny.yaml"
    stage = Stage(clinic.cloud.url, clinic.cloud.ssh_port, clinic.cloud.pid)
    patient = Admission(load(file), stage, clinic.folder / "state", "--env tiny").admit()
    limit_s = 9.0  # far above what the others take on a busy machine, far below the service's delay
    checks = [replace(check, timeout_s=limit_s) if check.name == "permissions" else check for check in CHECKS]
    seen = await looked(checks, patient)
    by_name = {finding.check: finding for finding in seen.findings}
    assert (by_name["permissions"].state, by_name["permissions"].kind) == (State.HUNG, "hung")
    assert "9 s" in by_name["permissions"].what
    assert by_name["zone"].state == State.OK
    assert seen.exit_code == 5
    assert seen.seconds < 25
