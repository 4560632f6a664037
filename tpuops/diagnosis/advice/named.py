"""The parts of a message that tell a person what to change: the operation, type, metric, zone, service, module, path.

Each entry is a class, what to find in the message, and a sentence that the found parts fill. Texts only.
"""

from __future__ import annotations

import re

_FINDS: tuple[tuple[str, str, str], ...] = (
    ("unsupported_op", r"XLA_TPU_JIT: ?(?P<ops>[\w, ]+)", "not available on the TPU: {ops}"),
    ("unsupported_op", r"No registered '(?P<op>\w+)' OpKernel for (?P<on>'?\w+'?)", "{op} has no kernel for {on}"),
    ("unsupported_op", r"rule for primitive '?(?P<op>\w+)'?", "primitive {op} has no TPU lowering"),
    ("unsupported_op", r"Could not run '(?P<op>[\w:]+)'", "{op} does not run on XLA"),
    ("unsupported_dtype", r"(?:Element type|XLA type|data type for TPU:?) (?P<type>\w+)", "the type is {type}"),
    ("unsupported_dtype", r"(?P<types>\w+ and \w+) types are not supported", "the types are {types}"),
    ("xla_dynamic_shape", r"Input (?P<n>\d+) to (?:node|op) [`']?(?P<node>[^`'\s]+)", "input {n} of {node} varies"),
    ("xla_dynamic_shape", r"with op (?P<op>\w+) must be a compile-time", "the operation is {op}"),
    ("xla_dynamic_shape", r"got (?:ShapedArray|Traced<ShapedArray)\((?P<shape>[^)]+)\)", "the traced value is {shape}"),
    ("xla_dynamic_shape", r"fixed size for dimension (?P<n>\d+)", "dimension {n} is not fixed: drop_remainder=True"),
    ("quota_exceeded", r"[Qq]uota (?:limit )?['\"](?P<metric>[\w./,-]+)['\"]", "the metric is {metric}"),
    ("quota_exceeded", r"quota metrics exceed quota limits: (?P<metric>[\w./,-]+)", "the metric is {metric}"),
    ("quota_exceeded", r"Limit:? (?P<limit>[\d.,]+)", "its limit is {limit}"),
    ("quota_exceeded", r"in (?P<scope>(?:region|zone) [\w-]+)", "in {scope}"),
    ("quota_exceeded", r"(?P<scope>globally)", "{scope}"),
    ("stockout", r"in the zone [\"'](?P<zone>[\w-]+)", "the zone is {zone}"),
    ("stockout", r"in the (?P<zone>[a-z]+-[a-z]+\d+-[a-z])\s+zone", "the zone is {zone}"),
    ("stockout", r"zones/(?P<zone>[a-z]+-[a-z]+\d+-[a-z])'? does not have enough", "the zone is {zone}"),
    ("stockout", r"zonesAvailable: ?'?(?P<zones>[a-z][\w,-]+)", "the service says that these have some: {zones}"),
    ("insufficient_scopes", r"requesting https://(?P<service>[\w.-]+)", "the call was to {service}"),
    ("insufficient_scopes", r"scope=\"(?P<scope>[^\"]+)", "the scope it wants is {scope}"),
    ("permission_denied", r"(?:Permission|Required) ['\"](?P<name>[\w.]+)['\"]", "the permission is {name}"),
    ("permission_denied", r"(?:on|for) (?:resource )?['\"]?(?P<on>(?://|projects?/)[\w./-]+)", "on {on}"),
    ("permission_denied", r"act as service_account: \[?(?P<who>[\w@.-]+)", "iam.serviceAccounts.actAs on {who}"),
    ("gcs_permission", r"(?P<who>[\w.-]+@[\w.-]+\.com) does not have", "the identity is {who}"),
    ("gcs_permission", r"does not have (?P<what>storage\.[\w.]+)", "it lacks {what}"),
    ("gcs_permission", r"(?P<where>gs://[^\s:'\"]+)", "at {where}"),
    ("api_disabled", r"apis/api/(?P<api>[\w.]+)/", "run: gcloud services enable {api}"),
    ("api_disabled", r"\[(?P<api>[\w.]+\.googleapis\.com)\] not enabled", "run: gcloud services enable {api}"),
    ("api_disabled", r"in project (?P<project>[\w-]+) before", "in project {project}"),
    ("host_oom", r"Killed process (?P<pid>\d+) \((?P<name>[^)]+)\)", "the kernel killed {name} (pid {pid})"),
    ("host_oom", r"anon-rss:(?P<rss>[\d,]+)kB", "it held {rss} kB"),
    ("host_oom", r"Unable to allocate (?P<size>[\d.]+ ?\w+)", "one array wanted {size}"),
    ("missing_dependency", r"No module named ['\"](?P<name>[\w.]+)", "the module is {name}"),
    ("missing_dependency", r"(?P<name>[\w./-]+): (?:command )?not found", "the program is {name}"),
    ("missing_dependency", r"No matching distribution found for (?P<name>\S+)", "the requirement is {name}"),
    (
        "version_mismatch",
        r"jaxlib is version (?P<has>[\d.]+).*version >= (?P<wants>[\d.]*\d)",
        "{has} where {wants} is needed",
    ),
    (
        "version_mismatch",
        r"PJRT API version \(?(?P<has>[\d.]+\d)\)? and .*?version \(?(?P<wants>[\d.]+\d)",
        "plugin {has}, framework {wants}",
    ),
    ("tpu_in_use", r"process with pid (?P<pid>\d+)", "the holder is pid {pid}"),
    ("tpu_in_use", r"(?P<device>/dev/(?:accel|vfio/)\d+)", "the device is {device}"),
    ("checkpoint_missing", r"matching files for (?P<path>\S+)", "the path is {path}"),
    ("checkpoint_missing", r"(?P<path>gs://[^\s'\"]+)", "the path is {path}"),
    ("checkpoint_missing", r"Key (?P<key>\S+) not found in checkpoint", "the key is {key}"),
    ("data_corrupt", r"corrupted record at (?P<n>\d+)", "at byte {n}: the same place again means the file"),
    ("local_filesystem", r"\(file: '(?P<path>[^']+)'", "the path is {path}"),
    ("coordination_timeout", r"(?P<tasks>(?:/job:\w+/replica:\d+/task:\d+\s*){1,8})", "look at {tasks}"),
    ("bad_tpu_spec", r"accelerator (?:type, )?[\"']?(?P<type>v\w+-\d+)[\"']?", "the type is {type}"),
    ("bad_tpu_spec", r"zone [\"']?(?P<zone>[a-z]+-[a-z]+\d+-[a-z])", "in zone {zone}"),
    ("disk_full", r"(?P<path>/(?:tmp|dev/shm|home|var|mnt)[^\s:'\"]*)", "the path is {path}"),
    ("vmem_oom", r"Used (?P<used>[\d.]+[KMG]) of (?P<limit>[\d.]+[KMG]) vmem", "{used} of {limit}"),
    ("user_code_error", r"size of tensor a \((?P<a>\d+)\) must match .*tensor b \((?P<b>\d+)\)", "{a} against {b}"),
    ("user_code_error", r"(?P<n>\d+) must be divisible by [\w ]*?(?P<m>\d+)", "{n} is not a multiple of {m}"),
)
_COMPILED = tuple((name, re.compile(pattern), sentence) for name, pattern, sentence in _FINDS)


def named_parts(failure_class: str, text: str) -> str:
    """The parts that the message names for its class, in one sentence; empty where it names none."""
    said: list[str] = []
    for name, pattern, sentence in _COMPILED:
        found = pattern.search(text) if name == failure_class else None
        if found is None:
            continue
        parts = {key: " ".join(value.split()) for key, value in found.groupdict().items()}
        one = sentence.format(**parts)
        if one not in said and sentence not in _already(said, sentence):
            said.append(one)
    return ", ".join(said)


def _already(said: list[str], sentence: str) -> list[str]:
    """The sentence itself where one that begins like it was said: the first way to find a part is enough."""
    begins = sentence.split("{", maxsplit=1)[0]
    return [sentence] if begins and any(each.startswith(begins) for each in said) else []
