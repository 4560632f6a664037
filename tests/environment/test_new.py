"""env.new: what it writes works, what cannot work is refused with what would, and nothing is ever written over."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.messages import documents
from tests.messages.terminal import Terminal
from tpuops.cloud import habits
from tpuops.environment import load
from tpuops.environment.new import FRAMEWORKS, Wish, compose, grant, missing, objections, zones_for
from tpuops.environment.problems import Wrong
from tpuops.environment.writing import written
from tpuops.errors import EnvironmentFileError
from tpuops.facts import catalogue

TPUOPS = Path(sys.executable).parent / "tpuops"
DIGITS = ("--project", "my-project", "--accelerator", "v3-8", "--zone", "us-central1-a", "--template", "digits")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TPUOPS, "env.new", *words], capture_output=True, text=True, check=False, timeout=60)


def document(*words: str, code: int = 0) -> dict[str, Any]:
    done = typed(*words, "--json")
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    documents.check("env.new", found)
    return dict(found)


def wrong(**answers: Any) -> dict[str, Wrong]:
    whole = {"project": "my-project", "accelerator": "v3-8", "zone": "us-central1-a", "template": "digits"}
    return dict(objections(Wish(**{"name": "mine", **whole, **answers})))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("type_name", ["v2-8", "v3-8", "v4-32", "v5litepod-8", "v5p-8", "v6e-1", "v6e-16"])
def test_every_small_shape_gives_a_file_that_loads_as_it_was_wished(
    folder: Path, framework: str, type_name: str
) -> None:
    (folder / "program").mkdir()
    for number, zone in enumerate(zones_for(type_name)[:2]):
        spot = {"provisioning": "spot", "owner": "team", "vm": "none"} if number else {}
        answers = {"accelerator": type_name, "zone": zone, "framework": framework, **spot}
        wish = Wish(f"mine-{number}", project="my-project", source="program", **answers)
        assert not list(objections(wish)) and not missing(wish)
        made = written(wish, folder)
        found = load(made.file)
        assert (found.tpu.accelerator, found.zone, found.tpu.provisioning) == (type_name, zone, wish.provisioning)
        assert found.tpu.runtime == made.composed.runtime
        assert (found.owner, found.vm is None) == (wish.owner, bool(number))
        assert found.source_folder == folder / "program"


def test_an_example_project_is_copied_and_can_be_trained(folder: Path) -> None:
    made = document("first", *DIGITS)
    found = load(folder / "environments/first.yaml")
    assert made["file"] == str(found.path)
    assert found.source_folder == folder / "first" == Path(made["folder"])
    assert {path.name for path in (folder / "first").iterdir()} >= {"train.py", "requirements.txt", "checkpoints.py"}
    assert not list(folder.rglob("*.partial")) and not list(folder.rglob("__pycache__"))
    assert made["usd_per_hour"] == pytest.approx(8.0)


def test_the_next_commands_are_printed_and_the_file_has_comments(folder: Path) -> None:
    done = typed("first", *DIGITS)
    assert done.returncode == 0
    steps = re.findall(r"^(?:next:)? +(tpuops \S+ --env first)", done.stderr, re.MULTILINE)
    assert steps == [f"tpuops {verb} --env first" for verb in ("doctor", "up", "rehearse")]
    text = (folder / "environments/first.yaml").read_text()
    assert "# v3-8 is also offered in us-central1-b, europe-west4-a." in text
    assert "# About 8.00 USD an hour (on-demand, list price" in text


def test_without_a_terminal_all_that_is_missing_is_said_at_once(folder: Path) -> None:
    found = document("first", "--accelerator", "v4-8", code=2)
    said = "\n".join(found["error"]["evidence"])
    assert re.findall(r"--(\w+): missing", said) == ["project", "zone", "source"]
    assert "zones with v4-8: us-central2-b" in said
    assert "--help env.new" in found["error"]["hint"]
    assert not list(folder.iterdir())


def test_what_cannot_work_is_said_together_with_what_is_missing(folder: Path) -> None:
    found = document("first", "--accelerator", "v9-8", "--zone", "us-central1", "--framework", "jaxx", code=2)
    said = "\n".join(found["error"]["evidence"])
    assert re.findall(r"^--(\w+)", said, re.MULTILINE) == ["accelerator", "zone", "framework"]
    assert "did you mean jax?" in said


@pytest.mark.parametrize(
    ("answers", "name", "words"),
    [
        ({"name": "Mine!"}, "name", r"is no environment name .* mine"),
        ({"project": "12345678"}, "project", "project number .* project id"),
        ({"project": "local-mine"}, "project", "embedded cloud .* --cloud local"),
        ({"accelerator": "v5e-8"}, "accelerator", "no accelerator type did you mean v5litepod-8"),
        ({"accelerator": "tpu7x-8"}, "accelerator", "does not serve TPU7x .* v6e is the newest"),
        ({"accelerator": "v3-9"}, "accelerator", "did you mean v3-8"),
        ({"zone": "us-central1-f"}, "zone", "not offered .* us-central1-a, us-central1-b"),
        ({"zone": "europe-west4-b"}, "zone", "not offered .* with it: europe-west4-a"),
        ({"zone": "us-central1-f", "accelerator": "v5p-8"}, "zone", "no TPU at all"),
        ({"provisioning": "preemptible"}, "provisioning", "no way of provisioning one of on-demand, spot"),
        ({"vm": "huge"}, "vm", "not a machine type"),
        ({"owner": "me"}, "owner", "kind of owner"),
        ({"template": "mnist"}, "template", "no template one of digits"),
        ({"framework": "pytorch"}, "template", "written in JAX"),
        ({"source": "program"}, "template", "brings its own source"),
        ({"command": ()}, "command", "is empty"),
        ({"grants": (grant("v4:us-central2-b:8"),)}, "grant", "outside every grant .* --allow-paid"),
        ({"grants": (grant("v3:us-central1-a:3"),)}, "grant", r"v3-8 \(4 chips.* outside every grant"),
        ({"grants": (grant("v3:us-central1-a:8:spot"),)}, "grant", "outside every grant .* v3 spot in us-central1-a"),
        ({"grants": (grant("v3:us-east1-d:8"),)}, "grant", "v3 is not offered in us-east1-d"),
    ],
)
def test_what_cannot_work_is_refused_with_what_would(answers: dict[str, Any], name: str, words: str) -> None:
    found = wrong(**answers)
    assert list(found) == [name]
    assert re.search(words, f"{found[name].message} {found[name].hint}")


@pytest.mark.parametrize(
    "text", ["", "v4", "v4:us-central2-b", "v4:us-central2-b:0", "v4:us-central2-b:8:free", "v4:us:8"]
)
def test_a_grant_that_says_too_little_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        grant(text)


def test_inside_a_grant_it_is_free_and_says_so(folder: Path) -> None:
    words = (
        "--project",
        "my-project",
        "--accelerator",
        "v4-8",
        "--template",
        "digits",
        "--grant",
        "v4:us-central2-b:32:spot",
    )
    made = document("free", *words, "--provisioning", "spot")
    assert (made["granted"], made["usd_per_hour"], made["zone"]) == (True, 0.0, "us-central2-b")
    assert made["known_from"]["zone"] == "its grant"
    assert load(folder / "environments/free.yaml").granted
    other = document("paid", *DIGITS)
    assert "--grant v4:us-central2-b:32:spot" in other["notes"][0]


def test_an_unknown_price_and_a_doubtful_runtime_are_said() -> None:
    wish = Wish("mine", project="my-project", accelerator="v6e-8", zone="us-east1-d", framework="tensorflow")
    assert "nobody has confirmed TensorFlow on v6e-8" in compose(wish, "..").notes[0]
    made = compose(replace(wish, zone="southamerica-west1-a", provisioning="spot"), "..")
    assert made.usd_per_hour is None
    assert "No source gives a list price" in made.text
    several = compose(Wish("mine", project="my-project", accelerator="v4-32", zone="us-central2-b"), "..")
    assert "4 workers" in several.notes[0]


@pytest.mark.parametrize("type_name", catalogue.accelerator_types())
def test_every_type_has_a_runtime_that_its_rules_take(type_name: str) -> None:
    known = catalogue.accelerator(type_name)
    assert known is not None
    for runtime in (catalogue.tensorflow_runtime(type_name)[0], catalogue.default_runtime(type_name)):
        assert catalogue.runtimes(known.generation).takes(runtime)
        assert catalogue.is_pod_runtime(runtime) in {None, not known.single_host}


def test_nothing_that_is_there_is_written_over(folder: Path) -> None:
    document("first", *DIGITS)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = document("first", *DIGITS, code=2)
    assert "never written over" in again["error"]["message"]
    (folder / "other").mkdir()
    assert "never written over" in document("other", *DIGITS, code=2)["error"]["message"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_source_that_is_not_there_leaves_nothing_behind(folder: Path) -> None:
    with pytest.raises(EnvironmentFileError, match="1 problem"):
        written(Wish("mine", project="my-project", accelerator="v3-8", zone="us-central1-a", source="nowhere"), folder)
    assert not list(folder.rglob("*.yaml*"))


def test_a_file_that_appears_meanwhile_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else makes the same environment between the look and the writing."""
    link = os.link

    def late(source: Path, target: Path) -> None:
        target.write_text("theirs")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    wish = Wish("mine", project="my-project", accelerator="v3-8", zone="us-central1-a", template="digits")
    with pytest.raises(EnvironmentFileError, match="never written over"):
        written(wish, folder)
    assert [path.name for path in (folder / "environments").iterdir()] == ["mine.yaml"]
    assert (folder / "environments/mine.yaml").read_text() == "theirs"
    assert not (folder / "mine").exists()


def test_the_folder_of_environments_is_found_upwards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "environments").mkdir()
    (folder / "deep/program").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep")
    wish = Wish("mine", project="my-project", accelerator="v3-8", zone="us-central1-a", source="program")
    made = written(wish, Path.cwd())
    assert made.file == folder / "environments/mine.yaml"
    assert load(made.file).train.source == "../deep/program"


def test_project_and_zone_are_those_that_gcloud_has(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = home / "gcloud"
    (config / "configurations").mkdir(parents=True)
    (config / "active_config").write_text("work\n")
    (config / "configurations/config_work").write_text(
        "[core]\nproject = from-gcloud\n[compute]\nzone = us-central1-b\n"
    )
    made = document("first", "--accelerator", "v3-8", "--template", "digits")
    assert (made["project"], made["zone"]) == ("from-gcloud", "us-central1-b")
    assert "configuration work" in made["known_from"]["project"]
    login = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    (config / "application_default_credentials.json").write_text(
        json.dumps({**login, "quota_project_id": "from-login"})
    )
    assert habits.project().value == "from-login"
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-variable")
    assert habits.project() == habits.Habit("from-variable", "GOOGLE_CLOUD_PROJECT")


def test_a_person_is_asked_what_no_flag_says_and_hears_why_an_answer_will_not_do(folder: Path) -> None:
    words = [str(TPUOPS), "env.new", "first", "--provisioning", "on-demand"]
    with Terminal(words, folder, dict(os.environ)) as terminal:
        terminal.until("project that pays:")
        terminal.type("X!", "Enter")
        terminal.until("is no project id")
        terminal.type("my-project", "Enter")
        terminal.until("Free research quota")
        terminal.type("Enter")
        assert "v6e-8        8 chips  about 21.60 USD an hour" in terminal.until(r"The TPU's type: .v3-8.")
        terminal.type("v4-8", "Enter")
        terminal.until(r"The zone: \[us-central2-b\]")
        terminal.type("us-central1-a", "Enter")
        terminal.until("v4-8 is not offered in us-central1-a")
        terminal.type("Enter")
        terminal.until("The framework")
        terminal.type("Enter")
        terminal.until("training program, or digits")
        terminal.type("Enter")
        code, screen = terminal.ended()
    assert code == 0, screen
    found = load(folder / "environments/first.yaml")
    assert (found.project, found.tpu.accelerator, found.zone) == ("my-project", "v4-8", "us-central2-b")
    assert (folder / "first/train.py").is_file()


def test_leaving_in_the_middle_writes_nothing(folder: Path) -> None:
    with Terminal([str(TPUOPS), "env.new", "first"], folder, dict(os.environ)) as terminal:
        terminal.until("project that pays:")
        terminal.type("C-c")
        assert terminal.ended()[0] == 130
    assert not list(folder.iterdir())
