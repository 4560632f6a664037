"""No field is accepted and ignored: each is in the commented example, and changing it changes what tpuops does."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tpuops import embedded
from tpuops.desired import desired
from tpuops.diagnosis import decide, diagnose, stall
from tpuops.diagnosis.verdict import Action, Basis, Budgets, Evidence, Move, Shape, Verdict, WorkerEvidence
from tpuops.environment import Environment, find, grants, load, owner_of, rules
from tpuops.environment.complaints import sections
from tpuops.environment.document import parse
from tpuops.environment.schema import schema
from tpuops.errors import AccessError, NotFound
from tpuops.lifecycle import finish, run
from tpuops.lifecycle.ends import left_s
from tpuops.remote import sync
from tpuops.stages import signatures
from tpuops.stages.record import RunRecord
from tpuops.stages.run import spec_of
from tpuops.stages.secrets import Secrets
from tpuops.stages.spend import hourly
from tpuops.stages.watch import Progress, stall_limits
from tpuops.tasks import opening
from tpuops.tasks.task import Invocation

EXAMPLE = find("example", Path(__file__))
SHIPPED = sorted(EXAMPLE.parent.glob("*.yaml"))
NOW = datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC)
RECORD = RunRecord("r1", "running", "digest", "2026-11-20T00:00:00+00:00")

OTHERWISE: dict[tuple[str, ...], Any] = {
    ("cloud",): "local",
    ("project",): "another-project",
    ("zone",): "us-central1-b",
    ("owner",): "team",
    ("tpu", "accelerator"): "v2-8",
    ("tpu", "runtime"): "tpu-vm-tf-2.17.1-pjrt",
    ("tpu", "provisioning"): "spot",
    ("tpu", "grants", "type"): "v2",
    ("tpu", "grants", "zone"): "us-central1-b",
    ("tpu", "grants", "provisioning"): "spot",
    ("tpu", "grants", "chips"): 2,
    ("tpu", "allow_paid"): True,
    ("tpu", "network"): "another",
    ("tpu", "subnetwork"): "another",
    ("tpu", "service_account"): "another@my-project.iam.gserviceaccount.com",
    ("tpu", "labels"): {"team": "speech"},
    ("tpu", "disks", "name"): "other-data",
    ("tpu", "disks", "mode"): "read-write",
    ("vm", "service_account"): "another@my-project.iam.gserviceaccount.com",
    ("vm", "labels"): {},
    ("vm", "machine_type"): "e2-medium",
    ("vm", "disk_gb"): 20,
    ("bucket", "name"): "another-bucket-1f3a",
    ("ssh", "user"): "ann",
    ("ssh", "login"): "os-login",
    ("ssh", "reach"): "internal",
    ("train", "source"): "..",
    ("train", "setup"): (),
    ("train", "command"): ("python3", "other.py"),
    ("train", "env"): {"DIGITS_STEPS": "10"},
    ("train", "secrets", "WANDB_API_KEY", "env"): "ANOTHER_KEY",
    ("train", "secrets", "HF_TOKEN", "file"): "another-token",
    ("train", "secrets", "KAGGLE_KEY", "secret_manager"): "projects/my-project/secrets/kaggle/versions/7",
    ("train", "outputs"): ("results",),
    ("train", "progress"): "epoch=([0-9]+)",
    ("train", "stall", "start"): "2h",
    ("train", "stall", "train"): "2h",
    ("recovery", "budgets", "process_killed"): 0,
    ("recovery", "budgets", "infrastructure"): 0,
    ("recovery", "budgets", "preempted"): 0,
    ("recovery", "overrides", "unknown", "action"): "give_up",
    ("recovery", "overrides", "gcs_transient", "budget"): 0,
    ("recovery", "signatures"): (),
    ("teardown", "success"): "keep",
    ("teardown", "failure"): "keep",
    ("teardown", "interrupt"): "delete",
    ("limits", "runtime"): "2d",
    ("limits", "abandoned"): "30m",
    ("rehearsal", "setup"): (("true",),),
    ("rehearsal", "command"): ("true",),
    ("rehearsal", "env"): {},
    ("rehearsal", "devices"): 4,
    ("rehearsal", "network"): None,
}
"""Another value for every field but `version`, which has one value only."""


def leaves() -> set[tuple[str, ...]]:
    """Every field that is no section."""
    known = sections()
    found = {(*path, key) for path, keys in known.items() for key in keys}
    found -= {path[:-1] if path[-1:] == ("*",) else path for path in known}
    return {as_written(path) for path in found}


def as_written(path: tuple[str, ...]) -> tuple[str, ...]:
    """A path with the example's own name in place of `*`: the first that has the field after it."""
    if "*" not in path:
        return path
    star = path.index("*")
    section: Any = written()
    for part in path[:star]:
        section = section.get(part, {})
    named = next((name for name, each in section.items() if path[star + 1] in each), "*")
    return (*path[:star], named, *path[star + 1 :])


def downstream(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Everything that is made of a file's values, as texts."""
    environment = Environment.model_validate(values, context={"path": EXAMPLE})
    wanted = desired(environment, owner=owner_of(environment, {"TPUOPS_OWNER": "ann"}), public_key="k x", now=NOW)
    open_train = environment.train.model_copy(update={"secrets": {}})
    made = {
        "desired": wanted,
        "price": hourly(wanted),
        "spec": spec_of(environment.model_copy(update={"train": open_train}), RECORD, wanted.bucket.name, {}),
        "secrets": _secrets(environment),
        "source": [entry.path for entry in sync.entries(environment.source_folder)],
        "progress": Progress(environment.train.progress or "").feed(b"step=3\nepoch=4\n", 0.0),
        "patience": _patience_s(environment),
        "decisions": _decisions(environment),
        "teardown": _teardown(environment, monkeypatch),
        "ends": left_s(Mock(ran_s=0.0, site=Mock(environment=environment))),
        "refused": _refused({**values, "tpu": {**values["tpu"], "provisioning": "spot"}}),
        "embedded": asyncio.run(_on_embedded(environment, monkeypatch)),
    }
    return {key: repr(value) for key, value in made.items()}


def _patience_s(environment: Environment) -> list[float]:
    """How long a program may be silent before its first step, and then."""
    limits = stall_limits(environment)
    assert limits is not None
    return [stall.left_s(stall.Signs(phase, 0.0, 0.0), limits) for phase in (stall.START, stall.TRAIN)]


def _refused(values: dict[str, Any]) -> list[str]:
    """What the rules say once the TPU is a spot one, which the example's grant does not cover."""
    draft = rules.Draft(values, frozenset(), EXAMPLE)
    return [found.message for found in rules.findings(draft, (*rules.RULES, *grants.RULES))]


def _secrets(environment: Environment) -> list[str]:
    """What is said where nothing that the file refers to is there."""
    if environment.cloud == "local":
        return sorted(asyncio.run(Secrets(environment, NothingKept()).values()))
    with pytest.raises(AccessError) as refused:
        asyncio.run(Secrets(environment, NothingKept()).values())
    return list(refused.value.evidence)


class NothingKept:
    async def secret(self, version: str) -> bytes:
        raise NotFound(version)


def _decisions(environment: Environment) -> list[str]:
    """What would be done after the first failure of each budget's kind, and of what the file alone explains."""
    recovery = environment.recovery
    budgets = Budgets(recovery.limits, overrides={name: Move(word) for name, word in recovery.actions.items()})
    own = WorkerEvidence(exit_code=1, log=b"checkpoint step-40.npz is not readable")
    failures = (
        Verdict("native_crash", Action.RETRY_IN_PLACE, refinement="process_killed"),
        Verdict("tpu_in_use", Action.RETRY_IN_PLACE),
        Verdict("preempted", Action.RECREATE, basis=Basis.STATE),
        Verdict("unknown", Action.NONE),
        Verdict("gcs_transient", Action.RETRY_IN_PLACE),
        diagnose(Evidence((own,), signatures=signatures.own(environment))),
    )
    shape = Shape(1, False, False)
    return [decide(failure, shape, (), budgets, step=5).reason for failure in failures]


def _teardown(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether machines are deleted after success, failure and interruption."""
    said: list[bool] = []

    async def end_machines(*_: Any, delete: bool, **__: Any) -> Any:
        said.append(delete)
        return finish.Torn((), (), ())

    site: Any = Mock(environment=environment)
    for room in (finish, run):
        monkeypatch.setattr(room, "end_machines", end_machines)
    for code in (0, 10):
        asyncio.run(finish.torn_down(site, site, finish.Report(code, ""), tear_down=True))
    asyncio.run(run._interrupted(Mock(site=site, node=None), tear_down=True))
    return said


async def _on_embedded(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a command on it would start the embedded cloud."""
    asked: list[Path] = []

    async def ensure(state: Path) -> None:
        asked.append(state)
        raise InterruptedError

    monkeypatch.setattr(embedded, "ensure", ensure)
    monkeypatch.setattr(opening, "chosen", lambda _: environment)
    monkeypatch.setattr("tpuops.lifecycle.opening.open_site", _nothing_opened)
    try:
        async with opening.opened(Invocation(env="example"), "plan"):
            raise AssertionError("nothing is opened here")
    except InterruptedError:
        return bool(asked)


def _nothing_opened(_: Any) -> Any:
    raise InterruptedError


def written() -> dict[str, Any]:
    """The example's values."""
    return copy.deepcopy(parse(EXAMPLE.read_text()).value)


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The example's values with one field changed."""
    values = written()
    section: Any = values
    for part in path[:-1]:
        section = section[part][0] if isinstance(section[part], tuple) else section[part]
    section[path[-1]] = value
    return values


def promised() -> set[tuple[str, ...]]:
    """The same as `leaves`, found another way: by walking the JSON Schema that editors get."""
    made = schema()

    def walk(node: dict[str, Any], path: tuple[str, ...]) -> set[tuple[str, ...]]:
        node = made["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        below = [walk(each, (*path, key)) for key, each in node.get("properties", {}).items()]
        below += [walk(each, path) for each in node.get("anyOf", ())]
        below += [walk(node["items"], path)] if "items" in node else []
        free = node.get("additionalProperties")
        below += [walk(free, (*path, "*"))] if isinstance(free, dict) and "$ref" in free else []
        return set().union(*below) if any(below) else {path}

    found = walk(made, ())
    leaf = {as_written(path) for path in found}
    return {path for path in leaf if not any(other[: len(path)] == path != other for other in leaf)}


def test_no_field_that_a_file_may_have_escapes_this_test() -> None:
    assert promised() == leaves()


def test_another_value_is_known_for_every_field() -> None:
    assert set(OTHERWISE) == leaves() - {("version",)}


@pytest.mark.parametrize("path", sorted(OTHERWISE), ids=".".join)
def test_changing_a_field_changes_something_downstream(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    before = downstream(written(), monkeypatch)
    after = downstream(changed(path, OTHERWISE[path]), monkeypatch)
    assert [key for key in before if before[key] != after[key]]


@pytest.mark.parametrize("path", sorted(leaves()), ids=".".join)
def test_the_example_holds_every_field_below_a_comment(path: tuple[str, ...]) -> None:
    section: Any = written()
    for part in path:
        assert part in section, f"{'.'.join(path)} is not in {EXAMPLE.name}"
        section = section[part][0] if isinstance(section[part], tuple) and path[-1] != part else section[part]
    lines = EXAMPLE.read_text().splitlines()
    line = parse(EXAMPLE.read_text()).lines
    at = line.get(path) or next(number for key, number in line.items() if tuple(map(str, _names(key))) == path)
    assert any(each.lstrip().startswith("#") for each in lines[max(0, at - 4) : at - 1])


def _names(key: tuple[str | int, ...]) -> tuple[str, ...]:
    return tuple(part for part in key if isinstance(part, str))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_file_is_right(path: Path) -> None:
    assert load(path).name == path.stem


def test_every_kind_of_machine_has_its_file() -> None:
    assert {"example", "v3-8", "v5e-8", "v6e-8", "v4-32", "hardened"} <= {path.stem for path in SHIPPED}
