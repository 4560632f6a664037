"""Looking: all checks at once, each with its own time-out; then what each finding is worth by what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tpuops.doctor.finding import Check, Finding, State, of_error, skipped
from tpuops.doctor.patient import Patient
from tpuops.errors import TpuopsError

HUNG_EXIT = 5


async def examine(checks: Sequence[Check], patient: Patient) -> tuple[Finding, ...]:
    """The findings, in the order of the checks; those that do not apply are left out."""
    chosen = [check for check in checks if check.applies(patient)]
    found = await asyncio.gather(*(_within(check, patient) for check in chosen))
    return judged(chosen, found)


def judged(checks: Sequence[Check], found: Sequence[Finding]) -> tuple[Finding, ...]:
    """What a check found counts only where everything it needs is well. Pure.

    A need that was left out, or had nothing to look at, hinders nobody.
    """
    unwell: set[str] = set()
    said = []
    for check, finding in zip(checks, found, strict=True):
        lacking = next((name for name in check.needs if name in unwell), None)
        if lacking is not None:
            echo = skipped(f"means nothing before `{lacking}` is well")
            said.append(replace(echo, check=check.name, seconds=finding.seconds))
        else:
            said.append(replace(finding, check=check.name))
        if lacking is not None or finding.state.stops:
            unwell.add(check.name)
    return tuple(said)


async def _within(check: Check, patient: Patient) -> Finding:
    """One check's finding, or that it did not come in time. It is not waited for any longer, whatever it does."""
    started = patient.clock.monotonic()
    looking = asyncio.ensure_future(_look(check, patient))
    try:
        await asyncio.wait({looking}, timeout=check.timeout_s)
    finally:
        if not looking.done():
            looking.cancel()
    seconds = round(patient.clock.monotonic() - started, 3)
    if looking.done():
        return replace(looking.result(), seconds=seconds)
    return Finding(
        State.HUNG,
        f"no answer within {check.timeout_s:.0f} s",
        kind="hung",
        hint="look at the network (a proxy, a VPN, a firewall), then ask again",
        exit_code=HUNG_EXIT,
        seconds=seconds,
    )


async def _look(check: Check, patient: Patient) -> Finding:
    try:
        return await check.look(patient)
    except TpuopsError as error:
        return of_error(error)
