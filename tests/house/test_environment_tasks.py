"""The env.* tasks as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
TPUOPS = Path(sys.executable).parent / "tpuops"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of somebody else with two environments, one of them wrong in two places."""
    folder = tmp_path / "environments"
    folder.mkdir()
    right = (TOP / "environments/v3-8.yaml").read_text()
    (folder / "good.yaml").write_text(right.replace("../templates/digits", ".."))
    (folder / "bad.yaml").write_text(right.replace("\nzone:", "\nzoen:").replace("version: 1", "version: 9"))
    return tmp_path


def tpuops(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TPUOPS, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=30)


def test_the_environments_of_the_folder_are_listed(project: Path) -> None:
    found = json.loads(tpuops(project, "env.list", "--json").stdout)["environments"]
    assert found["good"] == str(project / "environments/good.yaml")
    assert "bad" in found


def test_an_environment_is_shown_with_its_defaults_and_can_be_read_back(project: Path) -> None:
    shown = tpuops(project, "env.show", "-e", "good").stdout
    (project / "environments/again.yaml").write_text(shown)
    assert tpuops(project, "env.show", "-e", "again").stdout == shown


def test_checking_names_every_problem_of_every_file(project: Path) -> None:
    result = tpuops(project, "env.check", "--json")
    document = json.loads(result.stdout)
    assert result.returncode == document["exit_code"] == 2
    assert set(document["problems"]) == {str(project / "environments/bad.yaml")}
    said = "\n".join(document["error"]["evidence"])
    assert "zoen" in said
    assert "version" in said


def test_checking_one_right_file_is_exit_0(project: Path) -> None:
    result = tpuops(project, "env.check", "-e", "good")
    assert (result.returncode, result.stdout) == (0, "1 environment file is right\n")
    assert result.stderr.startswith("next: tpuops plan --env good")


def test_an_unknown_environment_is_exit_2(project: Path) -> None:
    result = tpuops(project, "env.show", "-e", "nope")
    assert result.returncode == 2
    assert result.stderr.startswith("error: there is no environment 'nope'")
