"""The files that come with tpuops name a project that is nobody's; whoever has set none up is told so, and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.messages import documents
from tpuops.environment import available, find, load

TPUOPS = Path(sys.executable).parent / "tpuops"
SHIPPED = {"example", "hardened", "v3-8", "v4-32", "v5e-8", "v6e-8"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "environments").mkdir()
    (tmp_path / "program").mkdir()
    return tmp_path


def say(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """On a machine without any login."""
    env = {**os.environ, "NO_GCE_CHECK": "true"}
    return subprocess.run(
        [TPUOPS, *words], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60
    )


def test_only_files_with_the_shipped_project_on_google_count_as_not_set_up(folder: Path) -> None:
    assert {name for name, path in available(folder).items() if load(path).is_example} == SHIPPED
    shipped = load(find("v3-8", folder))
    assert not shipped.on_embedded_cloud().is_example
    assert not shipped.model_copy(update={"project": "my-own-project"}).is_example


def test_status_of_all_looks_at_no_shipped_file_and_needs_no_login_for_them(folder: Path) -> None:
    done = say(folder, "status", "--all", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    documents.check("status", found)
    assert {row["environment"] for row in found["environments"] if "not_set_up" in row} == SHIPPED
    assert ", ".join(sorted(SHIPPED)) in say(folder, "status", "--all").stdout


def test_a_file_of_ones_own_does_need_a_login(folder: Path) -> None:
    text = (
        find("v3-8", folder)
        .read_text()
        .replace("my-project", "my-own-project")
        .replace("../templates/digits", "../program")
    )
    (folder / "environments" / "mine.yaml").write_text(text)
    done = say(folder, "status", "--all", "--json")
    assert done.returncode == 3
    rows = {row["environment"]: row for row in json.loads(done.stdout)["environments"]}
    assert rows["mine"]["error"]["class"] == "AccessError"


def test_whoever_uses_one_as_it_came_is_told_which_file_to_edit(folder: Path) -> None:
    done = say(folder, "plan", "--env", "v3-8")
    assert done.returncode == 3
    assert "v3-8 is still for the project it was shipped with, my-project" in done.stderr
    assert f"put your own project into {find('v3-8', folder)}" in done.stderr


@pytest.mark.parametrize(
    "task",
    ["plan", "up", "train", "run", "down", "status", "logs", "attach", "ssh", "stop", "fetch", "lock.show", "rehearse"],
)
def test_no_command_begins_anything_for_a_broken_file(folder: Path, home: Path, task: str) -> None:
    (folder / "environments" / "bad.yaml").write_text(
        "version: 1\ncloud: local\nproject: local-p\nzoen: us-central1-a\n"
    )
    done = say(folder, task, "--env", "bad", "--verbose")
    assert done.returncode == 2, done.stderr
    assert "environments/bad.yaml:4: zoen: unknown key" in done.stderr
    assert "did you mean zone?" in done.stderr
    assert " api " not in done.stderr
    assert not (home / "tpuops").exists(), "neither the embedded cloud nor a key was made"
