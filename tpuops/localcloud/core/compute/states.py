"""Which status of an instance may follow which, and which verb is allowed in which status: Compute's rules, as data.

Facts: google-cloud.md 3.1.2, 3.1.5 and 3.2.2b. A stopped instance is called TERMINATED; one that is gone has no status.
Every change of a status goes through `steps.step`, and the property test over the core takes these tables as its model.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core.steps import Steps

INSTANCE_VERBS: Mapping[str, frozenset[str]] = {
    # Deletion is allowed in every status, and so is every change that is not named here.
    "stop": frozenset({"RUNNING", "TERMINATED"}),
    "start": frozenset({"TERMINATED"}),
    "reset": frozenset({"RUNNING"}),
}
STOPPED_ONLY = frozenset({"setScheduling", "setServiceAccount", "setMachineType"})
"""Changes that only a stopped instance takes."""
INSTANCE_STEPS: Steps = {
    "PROVISIONING": frozenset({"RUNNING", "STOPPING"}),
    "STAGING": frozenset({"RUNNING", "TERMINATED", "STOPPING"}),
    "RUNNING": frozenset({"STOPPING", "TERMINATED"}),
    "STOPPING": frozenset({"TERMINATED", "RUNNING", "PROVISIONING", "STAGING"}),  # the last three: its end failed
    "TERMINATED": frozenset({"STAGING", "STOPPING"}),
}
