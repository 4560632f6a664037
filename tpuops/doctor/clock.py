"""This machine's clock against the service's own, as the head of a reply tells it.

Leases are measured by the service's clock and bear any skew. A service account's key does not: its signed assertion is
refused when it seems to come from another time. The end that Compute Engine sets a VM shifts with the skew too.
"""

from __future__ import annotations

from tpuops.doctor.finding import Check, Finding, broken, ok, warning
from tpuops.doctor.patient import Patient

NOTED_S = 30.0
WRONG_S = 300.0
SET = "`sudo timedatectl set-ntp true`, and look again in a minute; in a container or VM, mend the host's clock"


async def clock(patient: Patient) -> Finding:
    """How far the two are apart; half the way there and back counts as the moment of the answer."""
    before = patient.clock.now()
    said = await patient.cloud.around().server_time(patient.desired.bucket.name)
    after = patient.clock.now()
    if said is None:
        return warning("clock-unseen", "the service's own time did not come with its answer", hint="a proxy drops it")
    ahead = (before + (after - before) / 2 - said).total_seconds()
    apart = max(0.0, abs(ahead) - (after - before).total_seconds() / 2 - 1)  # an HTTP date has whole seconds
    words = f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the service's"
    if apart > WRONG_S:
        return broken("clock-skew", words, evidence=[f"here {after:%H:%M:%S} UTC, there {said:%H:%M:%S} UTC"], hint=SET)
    if apart > NOTED_S:
        return warning("clock-skew", words, hint=SET)
    return ok("this machine's clock agrees with the service's")


CHECKS = (Check("clock", clock),)
