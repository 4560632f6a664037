"""A good file becomes the value it describes; names are found from where one stands."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tpuops.environment import Environment, available, find, load, owner_of
from tpuops.environment.document import parse
from tpuops.environment.values import duration, duration_text
from tpuops.errors import EnvironmentFileError

SMALLEST = """\
version: 1
project: my-project
zone: us-central1-a
tpu: {accelerator: v3-8, runtime: tpu-ubuntu2204-base}
train: {source: ., command: [python3, train.py]}
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str = SMALLEST, name: str = "small") -> Path:
        folder = tmp_path / "environments"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.yaml"
        path.write_text(text)
        return path

    return write


def test_the_smallest_file_gets_the_documented_defaults(written):
    environment = load(written())
    assert environment.name == "small"
    assert environment.cloud == "google"
    assert environment.vm is None
    assert environment.tpu.spot is False
    assert environment.limits.runtime == timedelta(days=7)
    assert environment.recovery.budgets.limits == {"process_killed": 3, "infrastructure": 3, "preempted": 10}
    assert environment.teardown.interrupt == "keep"
    assert environment.region == "us-central1"
    assert environment.source_folder == written().parent


def test_the_shipped_v3_8_file_is_good_and_its_program_is_found():
    path = find("v3-8", Path(__file__))
    environment = load(path)
    assert environment.vm is not None and environment.vm.machine_type == "e2-small"
    assert environment.train.env["DIGITS_STEPS"] == "240"
    assert environment.train.setup[0][0] == "python3"
    assert environment.rehearsal.setup == ()
    assert environment.rehearsal.command is None
    assert environment.source_folder.is_dir()


def test_inside_a_wheel_templates_lie_beside_the_environments_with_an_underscore(tmp_path):
    (tmp_path / "_environments").mkdir()
    (tmp_path / "_templates" / "digits").mkdir(parents=True)
    path = tmp_path / "_environments" / "x.yaml"
    path.write_text(SMALLEST.replace("source: .", "source: ../templates/digits"))
    assert load(path).source_folder == tmp_path / "_templates" / "digits"


def test_vm_none_is_no_machine_and_yes_is_a_text(written):
    text = SMALLEST.replace("[python3, train.py]", "[yes, on, 1:30, 2026-01-01]") + "vm: none\n"
    environment = load(written(text))
    assert environment.vm is None
    assert environment.train.command == ("yes", "on", "1:30", "2026-01-01")


def test_aliases_that_do_not_multiply_are_read(written):
    text = (
        SMALLEST.replace("command: [python3, train.py]", "command: &c [python3, train.py]")
        + "rehearsal: {command: *c}\n"
    )
    assert load(written(text)).rehearsal.command == ("python3", "train.py")


def test_values_cannot_be_changed(written):
    environment = load(written())
    with pytest.raises(ValidationError):
        environment.zone = "us-central1-b"


def test_on_the_embedded_cloud_the_project_is_nobodys(written):
    there = load(written()).on_embedded_cloud()
    assert (there.cloud, there.project) == ("local", "local-my-project")
    assert there.name == "small"
    assert there.on_embedded_cloud() == there
    local = load(written(SMALLEST + "cloud: local\n")).on_embedded_cloud()
    assert local.project == "local-my-project"


def test_a_nearer_file_hides_a_farther_one_and_the_packaged_are_always_there(written, tmp_path):
    outer = written(name="v3-8")
    inner = tmp_path / "deep" / "environments"
    inner.mkdir(parents=True)
    assert find("v3-8", inner) == outer
    (inner / "v3-8.yaml").write_text(SMALLEST)
    assert find("v3-8", tmp_path / "deep") == inner / "v3-8.yaml"
    assert set(available(Path("/"))) >= {"v3-8"}


def test_a_path_works_as_a_name_and_a_miss_suggests(written, tmp_path):
    path = written()
    assert find("environments/small.yaml", tmp_path) == path
    with pytest.raises(EnvironmentFileError) as refused:
        find("v38", tmp_path)
    assert refused.value.hint == "did you mean v3-8?"
    with pytest.raises(EnvironmentFileError) as refused:
        find("zzzzzz", tmp_path)
    assert "small" in refused.value.hint
    with pytest.raises(EnvironmentFileError):
        find("none.yaml", tmp_path)


def test_owners_are_people_or_the_team_and_never_mistaken(written):
    environment = load(written())
    assert owner_of(environment, {"TPUOPS_OWNER": "ann"}) == "ann"
    assert owner_of(environment, {"TPUOPS_OWNER": "Ann.Smith@x.org"}).startswith("ann-smith-")
    assert owner_of(environment, {"TPUOPS_OWNER": "team"}) != "team"
    team = load(written(SMALLEST + "owner: team\n"))
    assert owner_of(team, {"TPUOPS_OWNER": "ann"}) == "team"


def test_the_schema_for_editors_is_json(written):
    schema = Environment.model_json_schema()
    assert json.loads(json.dumps(schema))["additionalProperties"] is False


def test_what_was_loaded_writes_and_reads_as_the_same(written, tmp_path):
    environment = load(find("v3-8", Path(__file__)))
    again = tmp_path / "again.yaml"
    dumped = json.loads(environment.model_dump_json(exclude_none=True))
    dumped["train"]["source"] = str(environment.source_folder)
    again.write_text(yaml.safe_dump(dumped))
    assert load(again).model_dump(exclude={"train": {"source"}}) == environment.model_dump(
        exclude={"train": {"source"}}
    )


@given(st.integers(min_value=1, max_value=10**9))
def test_durations_read_back_as_written(seconds):
    value = timedelta(seconds=seconds)
    assert duration(duration_text(value)) == value


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=8,
)


def _frozen(value):
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return {key: _frozen(item) for key, item in value.items()} if isinstance(value, dict) else value


@given(st.dictionaries(st.from_regex(r"[a-z]{2,8}", fullmatch=True), values, min_size=1, max_size=4))
def test_plain_yaml_reads_as_what_was_meant(tree):
    # JSON is YAML whose quotes leave no doubt of what was meant.
    read = parse(json.dumps(tree, ensure_ascii=False))
    assert read.problems == []
    assert read.value == _frozen(tree)


@given(st.text(max_size=200))
def test_no_text_at_all_breaks_the_reader(text):
    parse(text)
