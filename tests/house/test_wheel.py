"""The wheel carries what the command needs, so that it works in any folder of any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, TOP]
    subprocess.run(command, check=True, timeout=60)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel, and beside it only what ours depends on."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin/python"
    command = [*PIP, "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, timeout=60)
    # Packages of a folder named in a .pth file are found, but that folder's own .pth files (our checkout) are not read.
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin/tpuops"


def said(command: Path, folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run([command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_templates_and_environments_travel_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    expected = [TOP / "environments/v3-8.yaml", *(TOP / "templates").rglob("*.py")]
    for path in expected:
        assert f"tpuops/_{path.relative_to(TOP)}" in names
    assert [name for name in names if "__pycache__" in name] == []
    assert "tpuops/localcloud/__init__.py" in names


def test_the_installed_command_works_in_any_folder(installed: Path, tmp_path: Path) -> None:
    assert "rehearse" in said(installed, tmp_path, "--list")
    listed = json.loads(said(installed, tmp_path, "env.list", "--json"))["environments"]
    assert "/site-packages/tpuops/_environments/" in listed["v3-8"]
    assert said(installed, tmp_path, "env.check", "-e", "v3-8") == "1 environment file is right\n"
    assert "running" in said(installed, tmp_path, "cloud.status", "--json")
