"""The import contracts hold, and each of them has been seen to fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"

OFFENCES = [
    ("plan.py", "import tpuops.cloud", "The floors read downward"),
    ("errors.py", "import tpuops.resources", "The floors read downward"),
    ("diagnosis/__init__.py", "import tpuops.remote", "The floors read downward"),
    ("cloud/__init__.py", "import tpuops.remote", "The floors read downward"),
    ("report/__init__.py", "import tpuops.stages", "The floors read downward"),
    ("stages/__init__.py", "import tpuops.lifecycle", "The floors read downward"),
    ("resources.py", "import tpuops.journal", "The floors read downward"),
    ("facts/__init__.py", "import tpuops.environment", "The floors read downward"),
    ("unplaced.py", '"""A room nobody placed."""', "The floors read downward"),
    ("stages/__init__.py", "import google.auth", "Only the cloud room imports Google's clients"),
    ("localcloud/__init__.py", "from google.cloud import storage", "Only the cloud room imports Google's clients"),
    ("stages/__init__.py", "import asyncssh", "Only the remote room and the embedded cloud speak SSH"),
    ("cloud/__init__.py", "import aiohttp", "Only the embedded cloud serves HTTP"),
    ("stages/__init__.py", "import subprocess", "Processes are started in few places"),
    ("tasks/cloud.py", "import subprocess", "Processes are started in few places"),
    ("embedded.py", "import tpuops.localcloud", "The product knows nothing of the embedded cloud"),
    ("localcloud/__init__.py", "import tpuops.errors", "The embedded cloud knows nothing of the product but its facts"),
    ("localcloud/__init__.py", "import tpuops.cloud", "The embedded cloud knows nothing of the product but its facts"),
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LINTER, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(TOP / "tpuops", tmp_path / "tpuops", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_holds() -> None:
    result = lint(TOP)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("path", "line", "contract"), OFFENCES, ids=[f"{path}: {line}" for path, line, _ in OFFENCES])
def test_an_offending_import_breaks_its_contract(copy: Path, path: str, line: str, contract: str) -> None:
    with (copy / "tpuops" / path).open("a") as source:
        source.write(f"\n{line}\n")
    result = lint(copy)
    assert result.returncode == 1, result.stdout
    assert f"{contract} BROKEN" in " ".join(result.stdout.split())


def test_every_contract_has_an_offence_that_breaks_it() -> None:
    assert {contract["name"] for contract in contracts()} == {contract for _, _, contract in OFFENCES}


def test_the_embedded_cloud_is_kept_from_every_room_of_the_product() -> None:
    rooms = {
        f"tpuops.{path.stem}"
        for path in (TOP / "tpuops").iterdir()
        if path.name not in ("__init__.py", "facts", "localcloud")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    (forbidden,) = (set(c["forbidden_modules"]) for c in contracts() if c["type"] == "forbidden")
    assert rooms <= forbidden


def contracts() -> list[dict[str, list[str]]]:
    return tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
