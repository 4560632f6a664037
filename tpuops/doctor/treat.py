"""Mending: each fix asked for, done, and then looked at again; what is new after a fix is offered in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tpuops.doctor.examine import examine
from tpuops.doctor.finding import Check, Finding, Fix
from tpuops.doctor.patient import Patient
from tpuops.errors import TpuopsError

ROUNDS = 8
"""A fix may uncover what it hid: at most this often."""

Agree = Callable[[str], Awaitable[bool]]
"""Takes what would be done, as a question; whether a person agreed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A fix that was offered. `result`: done, declined, or the error it ended with."""

    check: str
    what: str
    result: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The last look, what was done before it, and how long that look took."""

    findings: tuple[Finding, ...]
    attempts: tuple[Attempt, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """What the first check that stops a run says; 0 where none does."""
        return next((finding.exit_code for finding in self.findings if finding.state.stops), 0)


async def looked(checks: Sequence[Check], patient: Patient) -> Diagnosis:
    """One look, nothing mended."""
    started = patient.clock.monotonic()
    findings = await examine(checks, patient)
    return Diagnosis(findings, (), round(patient.clock.monotonic() - started, 3))


async def treated(checks: Sequence[Check], admit: Callable[[], Patient], agree: Agree) -> Diagnosis:
    """Look, offer every fix once, look again, until nothing new can be mended. The last look decides."""
    attempts: list[Attempt] = []
    for _ in range(ROUNDS):
        patient = admit()
        seen = await looked(checks, patient)
        offered = {(attempt.check, attempt.what) for attempt in attempts}
        fixes = [(each.check, each.fix) for each in seen.findings if each.fix is not None]
        fresh = [(check, fix) for check, fix in fixes if (check, fix.what) not in offered]
        if not fresh:
            break
        tried = [Attempt(check, fix.what, await _tried(fix, agree, patient)) for check, fix in fresh]
        attempts += tried
        if not any(attempt.result == "done" for attempt in tried):
            break
    else:
        seen = await looked(checks, admit())
    return Diagnosis(seen.findings, tuple(attempts), seen.seconds)


async def _tried(fix: Fix, agree: Agree, patient: Patient) -> str:
    if fix.needs_person and not patient.terminal:
        return "needs a person at a terminal"
    if not await agree(f"shall I {fix.what}?"):
        return "declined"
    try:
        await fix.run()
    except TpuopsError as error:
        return error.message
    return "done"
