"""Which state may follow which, and which verb is allowed in which state: the TPU service's rules, as data.

Facts: google-cloud.md 2.2 and 2.6; cells marked [I] there are the careful reading. Every change of a state goes through
`steps.step`, and the property test over the core takes these tables as its model.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core.steps import Steps

AWAY = frozenset({"RESTARTING", "REIMAGING", "REPAIRING", "HIDING"})
"""What Google itself may do to a node that is ready; its machines are down meanwhile."""
PASSING = AWAY | {"HIDDEN", "UNHIDING"}
NODE_VERBS: Mapping[str, frozenset[str]] = {
    # Deletion is allowed in every state.
    "stop": frozenset({"READY"}),
    "start": frozenset({"STOPPED"}),
    "update": frozenset({"READY", "STOPPED"}),
    "maintenance": frozenset({"READY"}),
}
NODE_STEPS: Steps = {
    "CREATING": frozenset({"READY", "PREEMPTED", "DELETING"}),
    "READY": frozenset({"STOPPING", "PREEMPTED", "TERMINATED", "DELETING"} | AWAY),
    "RESTARTING": frozenset({"READY", "DELETING"}),
    "REIMAGING": frozenset({"READY", "DELETING"}),
    "REPAIRING": frozenset({"READY", "UNKNOWN", "DELETING"}),
    "HIDING": frozenset({"HIDDEN", "DELETING"}),
    "HIDDEN": frozenset({"UNHIDING", "DELETING"}),
    "UNHIDING": frozenset({"READY", "DELETING"}),
    "UNKNOWN": frozenset({"DELETING"}),
    "STOPPING": frozenset({"STOPPED", "READY", "PREEMPTED", "DELETING"}),
    "STOPPED": frozenset({"STARTING", "PREEMPTED", "DELETING"}),
    "STARTING": frozenset({"READY", "STOPPED", "PREEMPTED", "DELETING"}),
    "PREEMPTED": frozenset({"DELETING"}),
    "TERMINATED": frozenset({"DELETING"}),
    "DELETING": frozenset(  # a deletion failed
        {"CREATING", "READY", "STOPPING", "STOPPED", "STARTING", "PREEMPTED", "TERMINATED", "UNKNOWN", *PASSING}
    ),
}
QUEUE_VERBS: Mapping[str, frozenset[str]] = {
    # Deletion with `force` is allowed in every state; without it only here.
    "delete": frozenset({"ACCEPTED", "WAITING_FOR_RESOURCES", "FAILED", "SUSPENDED"}),
    "reset": frozenset({"ACTIVE", "FAILED", "SUSPENDED"}),
    "maintenance": frozenset({"ACTIVE"}),
}
QUEUE_STEPS: Steps = {
    "CREATING": frozenset({"ACCEPTED", "FAILED", "DELETING"}),
    "ACCEPTED": frozenset({"WAITING_FOR_RESOURCES", "FAILED", "DELETING"}),
    "WAITING_FOR_RESOURCES": frozenset({"PROVISIONING", "FAILED", "DELETING"}),
    "PROVISIONING": frozenset({"ACTIVE", "SUSPENDING", "DELETING"}),
    "ACTIVE": frozenset({"SUSPENDING", "ACCEPTED", "DELETING"}),
    "SUSPENDING": frozenset({"SUSPENDED", "DELETING"}),
    "SUSPENDED": frozenset({"ACCEPTED", "DELETING"}),
    "FAILED": frozenset({"ACCEPTED", "DELETING"}),
    "DELETING": frozenset({"ACCEPTED", "WAITING_FOR_RESOURCES", "ACTIVE", "FAILED", "SUSPENDED"}),  # a deletion failed
}
