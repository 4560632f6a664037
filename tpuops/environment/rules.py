"""What must hold between values before any call is made. Pure, except that the source folder is looked at.

The rules read the plain values, not the model, so that a file with an unknown key still hears of its wrong zone. A rule
is silent where one of its values is missing or already refused.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpuops.environment.problems import Finding, Path, did_you_mean
from tpuops.environment.values import source_folder
from tpuops.facts import catalogue
from tpuops.facts.catalogue import Accelerator

_ACCELERATOR, _RUNTIME, _ZONE = ("tpu", "accelerator"), ("tpu", "runtime"), ("zone",)
_SOURCE = ("train", "source")
_TPU7X = ("tpu7x", "v7x", "tpu7", "ironwood")


@dataclass(frozen=True)
class Draft:
    """Values as they stand in the file, and which of them were refused already."""

    values: Mapping[str, Any]
    refused: frozenset[Path]
    file: pathlib.Path

    def text(self, path: Path) -> str | None:
        """The text at `path`, or None where none, or no good one, is there."""
        found: Any = self.values
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) and path not in self.refused else None

    @property
    def accelerator(self) -> Accelerator | None:
        """The accelerator, where its name is known."""
        name = self.text(_ACCELERATOR)
        return catalogue.accelerator(name) if name else None


Rule = Callable[[Draft], Iterator[Finding]]


def findings(draft: Draft, rules: Iterable[Rule]) -> Iterator[Finding]:
    """What every rule has to say."""
    for rule in rules:
        yield from rule(draft)


def accelerator_exists(draft: Draft) -> Iterator[Finding]:
    """The type is one that the TPU API serves."""
    name = draft.text(_ACCELERATOR)
    if name is None or catalogue.accelerator(name):
        return
    if name.lower().rpartition("-")[0] in _TPU7X:
        yield Finding(
            _ACCELERATOR,
            f"{name}: the Cloud TPU API does not serve TPU7x",
            "it needs Compute Engine instances, which tpuops does not drive yet; v6e is the newest type here",
        )
        return
    other = catalogue.spelled_otherwise(name)
    hint = f"did you mean {other}?" if other else did_you_mean(name, catalogue.accelerator_types()) or _sizes(name)
    yield Finding(_ACCELERATOR, f"{name!r} is no accelerator type", hint)


def _sizes(name: str) -> str:
    family = name.lower().rpartition("-")[0]
    known = [known for known in catalogue.accelerator_types() if known.rpartition("-")[0] == family]
    return f"types: {', '.join(known or ['v2-8', 'v3-8', 'v4-8', 'v5litepod-8', 'v5p-8', 'v6e-8'])}"


def offered_in_zone(draft: Draft) -> Iterator[Finding]:
    """The zone offers the type."""
    zone, known = draft.text(_ZONE), draft.accelerator
    if zone is None or known is None or zone in catalogue.zones_of(known.type):
        return
    places = catalogue.zones_of(known.type)
    same_region = [place for place in places if catalogue.region_of(place) == catalogue.region_of(zone)]
    hint = f"zones with {known.type}: {', '.join(same_region or places[:6])}"
    here = [other for other in catalogue.offered(zone) if catalogue.accelerator(other).workers == known.workers]  # type: ignore[union-attr]
    if here:
        hint += f"; {zone} has {', '.join(here[:4])}"
    yield Finding(_ZONE, f"{known.type} is not offered in {zone}", hint, against=_ACCELERATOR)


def runtime_of_generation(draft: Draft) -> Iterator[Finding]:
    """The software belongs to the generation; the API would accept a wrong pair and fail obscurely later."""
    runtime, known = draft.text(_RUNTIME), draft.accelerator
    if runtime is None or known is None:
        return
    runtimes = catalogue.runtimes(known.generation)
    if not runtimes.takes(runtime):
        yield Finding(
            _RUNTIME,
            f"{runtime!r} does not run on {known.generation}",
            f"for JAX and PyTorch write {runtimes.default}",
            against=_ACCELERATOR,
        )


def runtime_of_hosts(draft: Draft) -> Iterator[Finding]:
    """TensorFlow has images for one worker and for several (`-pod`)."""
    runtime, known = draft.text(_RUNTIME), draft.accelerator
    if runtime is None or known is None or not catalogue.runtimes(known.generation).takes(runtime):
        return
    pod = catalogue.is_pod_runtime(runtime)
    if pod is None or pod != known.single_host:
        return
    count = f"{known.type} has {known.workers} worker{'s' if known.workers > 1 else ''}"
    message = f"{count}, but {runtime} is for {'several' if pod else 'one'}"
    yield Finding(_RUNTIME, message, f"write {_other_pod(runtime, pod=pod)}", against=_ACCELERATOR)


def _other_pod(runtime: str, *, pod: bool) -> str:
    if pod:
        return runtime.replace("-pod", "", 1)
    base, _, device = runtime.rpartition("-")
    return f"{base}-pod-{device}" if device in {"pjrt", "se"} else f"{runtime}-pod"


def source_exists(draft: Draft) -> Iterator[Finding]:
    """The folder to sync is there, and is not the whole home or disk."""
    source = draft.text(_SOURCE)
    if source is None:
        return
    folder = source_folder(draft.file, source)
    if not folder.exists():
        near = did_you_mean(folder.name, _neighbours(folder))
        yield Finding(_SOURCE, f"there is no folder {source}", near or "the path is relative to this file's folder")
    elif not folder.is_dir():
        yield Finding(_SOURCE, f"{source} is a file", "give the folder that holds the program")
    elif folder in (pathlib.Path.home(), pathlib.Path(folder.anchor)):
        yield Finding(_SOURCE, f"{source} is all of {folder}", "give the folder of the program alone")


def signatures_exist(draft: Draft) -> Iterator[Finding]:
    """The files of the user's own messages are there; what stands in them is read by who recognises messages."""
    recovery = draft.values.get("recovery")
    listed = recovery.get("signatures") if isinstance(recovery, Mapping) else None
    for index, name in enumerate(listed if isinstance(listed, tuple | list) else ()):
        here = ("recovery", "signatures", index)
        if not isinstance(name, str) or here in draft.refused:
            continue
        path = draft.file.parent / pathlib.Path(name).expanduser()
        if not path.is_file():
            siblings = [entry.name for entry in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
            near = did_you_mean(path.name, siblings)
            yield Finding(here, f"there is no file {name}", near or "the path is relative to this file's folder")


def _neighbours(folder: pathlib.Path) -> list[str]:
    parent = folder.parent
    return [entry.name for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []


def outputs_apart(draft: Draft) -> Iterator[Finding]:
    """No output folder lies in another, or files would be collected twice."""
    train = draft.values.get("train")
    outputs = train.get("outputs") if isinstance(train, Mapping) else None
    if not isinstance(outputs, tuple) or not all(isinstance(output, str) for output in outputs):
        return
    paths = [pathlib.PurePosixPath(output) for output in outputs]
    for index, path in enumerate(paths):
        for earlier in range(index):
            if path.is_relative_to(paths[earlier]) or paths[earlier].is_relative_to(path):
                yield Finding(
                    ("train", "outputs", index),
                    f"{outputs[index]} and {outputs[earlier]} hold the same files",
                    "keep the outer one",
                    against=("train", "outputs", earlier),
                )


def secrets_kept_apart(draft: Draft) -> Iterator[Finding]:
    """No secret is also given openly, and none lies in the folder that is sent to the machines."""
    train, source = draft.values.get("train"), draft.text(_SOURCE)
    listed = train.get("secrets") if isinstance(train, Mapping) else None
    if not isinstance(train, Mapping) or not isinstance(listed, Mapping):
        return
    openly = train.get("env")
    for name, secret in listed.items():
        here = ("train", "secrets", name)
        if isinstance(openly, Mapping) and name in openly:
            yield Finding(here, "is given openly too", "keep one of them", against=("train", "env", name))
        file = secret.get("file") if isinstance(secret, Mapping) else None
        if (
            isinstance(file, str)
            and source is not None
            and _inside(draft.file, file, source_folder(draft.file, source))
        ):
            message = f"{file} lies in the source, which is copied to the machines"
            yield Finding((*here, "file"), message, "move it out of that folder", against=_SOURCE)


def _inside(base: pathlib.Path, file: str, folder: pathlib.Path) -> bool:
    path = pathlib.Path(file)
    return (base.parent / (path.expanduser() if file.startswith("~/") else path)).resolve().is_relative_to(folder)


def disks_of_several_workers(draft: Draft) -> Iterator[Finding]:
    """Only one worker can write to a disk (google-cloud.md 2.8)."""
    tpu, known = draft.values.get("tpu"), draft.accelerator
    disks = tpu.get("disks") if isinstance(tpu, Mapping) else None
    if known is None or known.single_host or not isinstance(disks, tuple):
        return
    for index, disk in enumerate(disks):
        if isinstance(disk, Mapping) and disk.get("mode") == "read-write":
            message = f"{known.type} has {known.workers} workers; only one could write to the disk"
            yield Finding(("tpu", "disks", index, "mode"), message, "write read-only", against=_ACCELERATOR)


def closed_network_of_several_workers(draft: Draft) -> Iterator[Finding]:
    """Workers of a slice could not reach each other."""
    known, path = draft.accelerator, ("rehearsal", "network")
    if known is not None and not known.single_host and draft.text(path) == "none":
        message = f"{known.type} has {known.workers} workers, which could not reach each other"
        yield Finding(path, message, "leave the network open, or rehearse on one worker", against=_ACCELERATOR)


def subnetwork_of_a_network(draft: Draft) -> Iterator[Finding]:
    """A subnetwork without its network would be looked for in the network `default`."""
    tpu = draft.values.get("tpu")
    if isinstance(tpu, Mapping) and tpu.get("subnetwork") and not tpu.get("network"):
        hint = "name the network that holds it as `tpu.network`"
        yield Finding(("tpu", "subnetwork"), "names a subnetwork, but not its network", hint)


def user_of_os_login(draft: Draft) -> Iterator[Finding]:
    """OS Login gives the user its name, and would ignore another."""
    user, login = ("ssh", "user"), ("ssh", "login")
    if draft.text(user) is not None and draft.text(login) == "os-login":
        message = "OS Login gives the user its name; this one would be ignored"
        yield Finding(user, message, "remove the line, or write `login: metadata`", against=login)


RULES: tuple[Rule, ...] = (
    accelerator_exists,
    offered_in_zone,
    runtime_of_generation,
    runtime_of_hosts,
    source_exists,
    signatures_exist,
    outputs_apart,
    secrets_kept_apart,
    disks_of_several_workers,
    subnetwork_of_a_network,
    closed_network_of_several_workers,
    user_of_os_login,
)
