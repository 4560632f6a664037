"""A diagnosis as the JSON document that scripts read."""

from __future__ import annotations

from typing import Any

from tpuops.doctor.finding import Finding
from tpuops.doctor.patient import Patient
from tpuops.doctor.treat import Diagnosis


def document(diagnosis: Diagnosis, patient: Patient) -> dict[str, Any]:
    """Everything that was found and done."""
    environment = patient.environment
    return {
        "environment": environment.name,
        "cloud": environment.cloud,
        "project": environment.project,
        "healthy": diagnosis.exit_code == 0,
        "exit_code": diagnosis.exit_code,
        "seconds": diagnosis.seconds,
        "findings": [_finding(each) for each in diagnosis.findings],
        "fixes": [{"check": each.check, "what": each.what, "result": each.result} for each in diagnosis.attempts],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "check": finding.check,
        "state": str(finding.state),
        "class": finding.kind,
        "what": finding.what,
        "evidence": list(finding.evidence),
        "hint": finding.hint,
        "exit_code": finding.exit_code,
        "seconds": finding.seconds,
        "fix": None if fix is None else {"what": fix.what, "command": fix.command, "needs_person": fix.needs_person},
    }
