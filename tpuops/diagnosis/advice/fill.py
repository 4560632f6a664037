"""Advice for a judgement: this log's own numbers and names first, then the signature's words."""

from __future__ import annotations

from tpuops.diagnosis.advice.hbm import hbm_advice
from tpuops.diagnosis.advice.named import named_parts
from tpuops.diagnosis.judge import Judgement

_BEFORE, _AFTER = 400, 12 << 10
_GENERAL = {
    "interrupted": "ended from outside on purpose; nothing is restarted",
    "grpc_unavailable": "a new process must connect; training resumes from the last checkpoint",
    "grpc_deadline": "try again; a call that never answers at start means a wrong or retired address",
    "infeed_failed": "one retry is fair; the second time look at the input pipeline",
    "tpu_unreachable": "ask the API for state and health before anything else",
    "preempted": "delete it (and its queued resource) and create it anew; resume from the last checkpoint",
    "maintenance_event": "leave a run alone while its steps advance; wait for the automatic restart otherwise",
    "tpu_hardware_fault": "one retry; the same again means a new machine or, at the same step, the program",
    "tpu_init_failed": "end left-over processes on every worker, then stop and start; else a new node",
    "tpu_not_found": "set JAX_PLATFORMS=tpu or PJRT_DEVICE=TPU, and run on the TPU VM itself",
    "tpu_in_use": "end the holder on that worker (only your own), then remove a stale /tmp/libtpu_lockfile",
    "host_oom": "more host memory, or less of it: input workers, shuffle buffer, one copy of the model a process",
    "disk_full": "free space or mount a disk; look at df -h, df -i and /dev/shm",
    "xla_compile_error": "the program or the compiler must change; the same program fails every time",
    "xla_dynamic_shape": "pad to fixed shapes, use static arguments, batch(drop_remainder=True)",
    "user_code_error": "the program itself is wrong; the decisive line says where",
    "coordination_timeout": "read the first error of every worker; restart all hosts or none",
    "multislice_dcn_error": "restart every slice together",
    "hang": "take stacks, then restart; at the same place again it is the program",
    "stockout": "wait and ask again, or use another zone",
    "quota_exceeded": "ask for quota, delete unused TPUs and FAILED or SUSPENDED queued resources, or change zone",
    "api_transient": "try again a few times with growing waits",
    "resource_conflict": "wait until the operation is done; adopt a live resource of that name or choose another name",
    "bad_tpu_spec": "list what the zone offers first",
    "network_config": "correct the range, the subnet or the proxy",
    "adc_missing": "log in again: gcloud auth application-default login, or attach a service account",
    "insufficient_scopes": "stop the VM, widen its scopes to cloud-platform, start it; IAM roles do not help",
    "permission_denied": "grant the role that holds the permission to the identity in use",
    "gcs_permission": "give the identity that reads and writes a role on the bucket",
    "vmem_oom": "smaller kernel blocks or a newer compiler; a smaller batch seldom helps",
    "unsupported_op": "replace the operation, or keep it on the host",
    "unsupported_dtype": "bfloat16, float32 or int32 on the device; strings stay on the host",
    "local_filesystem": "put the path on gs://, or run on a TPU VM",
    "nan_loss": "lower the learning rate, clip gradients, check precision and data; a restart replays it",
    "ssh_host_key_changed": "where you created the machine anew, remove that one entry: ssh-keygen -R",
    "api_disabled": "enable the service, then wait a few minutes",
    "ssh_auth_failed": "check metadata keys, OS Login role, user name and file modes",
    "ssh_timeout": "ask the API for the state first; then firewall, external address, IAP",
    "gcs_transient": "go on from the last checkpoint",
    "checkpoint_missing": "check the path, the step and the permissions",
    "data_corrupt": "write the file again, or go back one checkpoint",
    "version_mismatch": "install versions that belong together",
    "missing_dependency": "install it on every worker, and again after each recreation",
    "native_crash": "one restart at most; if it repeats look at the versions of native libraries",
    "unknown": "no signature knows this; the decisive line is the first that sounds like trouble",
}


def advice_for(judgement: Judgement) -> str:
    """One or a few sentences; empty where there is nothing to advise."""
    winner = judgement.winner
    if winner is None:
        return _GENERAL.get(judgement.failure_class, "")
    text = message_of(judgement)
    general = winner.hit.signature.advice or _GENERAL.get(judgement.failure_class, "")
    if judgement.failure_class == "hbm_oom":
        return hbm_advice(text)
    named = named_parts(judgement.failure_class, text)
    return ": ".join(each for each in (named, general) if each)


def message_of(judgement: Judgement) -> str:
    """The decisive line with the text around it, as far as one message goes."""
    winner = judgement.winner
    if winner is None:
        return judgement.line.decode("utf-8", errors="replace")
    hit = winner.hit
    whole = hit.line + hit.after[:_AFTER] + b"\n" + hit.before[-_BEFORE:]
    return whole.decode("utf-8", errors="replace").replace("\x0b", "\n")
