"""The names of the failure classes, by who can mend them; the failure taxonomy is their source.

Names alone, so that an environment file can speak of classes without the room that recognises them.
"""

from __future__ import annotations

RETRIED = (
    "grpc_unavailable", "grpc_deadline", "infeed_failed", "tpu_unreachable", "preempted", "maintenance_event",
    "tpu_hardware_fault", "tpu_init_failed", "tpu_in_use", "coordination_timeout", "multislice_dcn_error", "hang",
    "stockout", "api_transient", "resource_conflict", "ssh_timeout", "gcs_transient", "native_crash",
)  # fmt: skip
"""Classes that a recovery may answer."""

UNKNOWN = "unknown"
"""No signature matched; retried only where an environment file says so."""

FOR_A_PERSON = (
    "tpu_not_found", "hbm_oom", "vmem_oom", "host_oom", "disk_full", "xla_compile_error", "xla_dynamic_shape",
    "unsupported_op", "unsupported_dtype", "local_filesystem", "nan_loss", "user_code_error", "quota_exceeded",
    "bad_tpu_spec", "network_config", "adc_missing", "insufficient_scopes", "permission_denied", "api_disabled",
    "gcs_permission", "ssh_auth_failed", "ssh_host_key_changed", "checkpoint_missing", "data_corrupt",
    "version_mismatch", "missing_dependency",
)  # fmt: skip
"""Classes that only a person can mend: they are never retried, whatever a file says."""
