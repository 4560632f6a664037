"""The failure classes: what each means, its usual remedy, the budget it is charged to, and whether it may be retried.

The names and remedies are those of the failure taxonomy and are stable: scripts rely on them. This room holds no
patterns (they are data, in `library/`) and decides nothing; `ladder` reads the flags.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuops.diagnosis.verdict import Action

HEALTHY = "healthy"
UNKNOWN = "unknown"
PROCESS_KILLED = "process_killed"
"""Refinement of `native_crash`: SIGKILL from outside with no sign of memory exhaustion."""


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One class. `family` is the budget it is charged to where the environment names none for the class itself.

    `second_chance`: one restart in place is fair even where the log's text asks for a change, because the same text
    also comes from passing faults. `user_error`: a retry can never help and is never paid for.
    """

    name: str
    meaning: str
    action: Action
    family: str = "infrastructure"
    second_chance: bool = False
    user_error: bool = False
    escalates: bool = True


def _person(name: str, meaning: str, action: Action) -> FailureClass:
    """A class only a person can mend: no family, no retry."""
    return FailureClass(name, meaning, action, family="", user_error=True, escalates=False)


_CLASSES = (
    FailureClass(HEALTHY, "the run goes on by itself, or is done", Action.NONE, family="", escalates=False),
    FailureClass(UNKNOWN, "no signature matched", Action.NONE, family="", escalates=False),
    FailureClass("interrupted", "a person or a supervisor ended it", Action.NONE, family="", escalates=False),
    FailureClass(
        "grpc_unavailable", "the TPU worker's server or session was lost", Action.RETRY_IN_PLACE, second_chance=True
    ),
    FailureClass("grpc_deadline", "a call ran out of its own deadline", Action.RETRY_IN_PLACE, second_chance=True),
    FailureClass(
        "infeed_failed", "the input or output queue broke, no inner cause", Action.RETRY_IN_PLACE, second_chance=True
    ),
    FailureClass("tpu_unreachable", "the TPU does not answer", Action.WAIT_AND_RETRY, second_chance=True),
    FailureClass("preempted", "the spot TPU or VM was taken", Action.RECREATE, family="preempted"),
    FailureClass("maintenance_event", "host maintenance is announced or under way", Action.WAIT_AND_RETRY),
    FailureClass(
        "tpu_hardware_fault", "the chip or its driver reports a fault", Action.RETRY_IN_PLACE, second_chance=True
    ),
    FailureClass("tpu_init_failed", "the TPU topology cannot be set up", Action.STOP_START),
    _person("tpu_not_found", "the process sees no TPU device", Action.FIX_CONFIG),
    FailureClass("tpu_in_use", "another process holds the chips", Action.RETRY_IN_PLACE),
    _person("hbm_oom", "device memory does not hold the program", Action.REDUCE_MEMORY),
    _person("vmem_oom", "a kernel overruns the core's scratch memory", Action.FIX_CODE),
    _person("host_oom", "the host's memory is exhausted", Action.GROW_HOST_MEMORY),
    _person("disk_full", "no space or i-nodes left", Action.FREE_DISK),
    _person("xla_compile_error", "the compiler rejects the program", Action.FIX_CODE),
    _person("xla_dynamic_shape", "a shape is not known at compile time", Action.FIX_CODE),
    _person("unsupported_op", "an operation does not exist on the TPU", Action.FIX_CODE),
    _person("unsupported_dtype", "a data type the TPU lacks", Action.FIX_CODE),
    _person("local_filesystem", "a remote TPU worker was given a local path", Action.FIX_CONFIG),
    _person("nan_loss", "the optimisation diverged", Action.FIX_CODE),
    _person("user_code_error", "the training program is wrong", Action.FIX_CODE),
    FailureClass("coordination_timeout", "the hosts did not meet", Action.RETRY_IN_PLACE),
    FailureClass("multislice_dcn_error", "slices lost each other", Action.RETRY_IN_PLACE),
    FailureClass("hang", "the process lives and nothing advances", Action.RETRY_IN_PLACE, second_chance=True),
    FailureClass("stockout", "no capacity now", Action.WAIT_AND_RETRY, family="capacity", escalates=False),
    _person("quota_exceeded", "the project's own limit", Action.FIX_CONFIG),
    FailureClass("api_transient", "a passing fault of a service", Action.WAIT_AND_RETRY, escalates=False),
    FailureClass(
        "resource_conflict", "the name is taken or an operation is under way", Action.WAIT_AND_RETRY, escalates=False
    ),
    _person("bad_tpu_spec", "type, size or version is not offered", Action.FIX_CONFIG),
    _person("network_config", "address range, subnet, network or proxy", Action.FIX_CONFIG),
    _person("adc_missing", "no usable credentials", Action.FIX_CREDENTIALS),
    _person("insufficient_scopes", "the token's scopes are too narrow", Action.FIX_CREDENTIALS),
    _person("permission_denied", "IAM or billing forbids the call", Action.FIX_CREDENTIALS),
    _person("api_disabled", "the service is not switched on", Action.FIX_CONFIG),
    _person("gcs_permission", "Cloud Storage forbids a known identity", Action.FIX_CREDENTIALS),
    _person("ssh_auth_failed", "sshd refuses the key", Action.FIX_SSH_KEYS),
    _person("ssh_host_key_changed", "the known-hosts entry does not fit", Action.FIX_SSH_KEYS),
    FailureClass("ssh_timeout", "no SSH connection", Action.WAIT_AND_RETRY, escalates=False),
    FailureClass("gcs_transient", "Cloud Storage failed for a time", Action.RETRY_IN_PLACE, escalates=False),
    _person("checkpoint_missing", "the file or key asked for is not there", Action.FIX_CONFIG),
    _person("data_corrupt", "bytes are not sound, or of another format", Action.FIX_CONFIG),
    _person("version_mismatch", "parts do not fit together", Action.FIX_CONFIG),
    _person("missing_dependency", "a package or program is absent", Action.FIX_CONFIG),
    FailureClass(
        "native_crash", "the process died in native code", Action.FIX_CONFIG, second_chance=True, escalates=False
    ),
)

CLASSES: dict[str, FailureClass] = {each.name: each for each in _CLASSES}


def family_of(failure_class: str, refinement: str = "") -> str:
    """The budget family a failure is charged to; empty for what is never retried."""
    return PROCESS_KILLED if refinement == PROCESS_KILLED else CLASSES[failure_class].family
