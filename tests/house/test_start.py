"""What the command shows before it does anything: quickly, and without loading what only a task needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tpuops import __version__
from tpuops.tasks.namespace import namespace

TOP = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
HEAVY = ("google", "pydantic", "asyncssh", "aiohttp", "tpuops.cloud", "jinja2", "rich", "re2", "tenacity")


def said(*command: str | Path, cwd: Path = TOP) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=30).stdout


def tasks() -> list[str]:
    return sorted(namespace().task_names)


@pytest.mark.parametrize("flag", ["--list", "--help", "--version"])
def test_showing_the_tasks_loads_no_client_and_nothing_slow(flag: str) -> None:
    script = (
        "import sys\nfrom tpuops.program import main\n"
        f"sys.argv = ['tpuops', '{flag}']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *sorted(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    loaded = result.stderr.rpartition("LOADED ")[2].split()
    assert "invoke.program" in loaded
    assert [name for name in loaded if name.startswith(tuple(f"{heavy}." for heavy in HEAVY)) or name in HEAVY] == []


@pytest.mark.parametrize("program", ["invoke", "tpuops"])
def test_every_task_is_listed_with_what_it_does(program: str) -> None:
    listed = json.loads(said(BIN / program, "--list", "--list-format", "json"))
    found = {task["name"]: task["help"] for task in listed["tasks"]}
    for group in listed["collections"]:
        assert group["help"], group["name"]
        found |= {f"{group['name']}.{task['name']}": task["help"] for task in group["tasks"]}
    assert sorted(found) == tasks()
    assert [name for name, text in found.items() if not text] == []


@pytest.mark.parametrize("task", tasks())
def test_every_flag_of_a_task_is_explained(task: str) -> None:
    for argument in namespace()[task].get_arguments():
        assert argument.help, argument.name


def test_the_command_knows_its_version_in_any_folder(tmp_path: Path) -> None:
    assert said(BIN / "tpuops", "--version", cwd=tmp_path) == f"tpuops {__version__}\n"


def test_the_command_is_a_module_too(tmp_path: Path) -> None:
    assert said(sys.executable, "-m", "tpuops.program", "--list", cwd=tmp_path) == said(BIN / "tpuops", "--list")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_is_for_this_command(shell: str) -> None:
    assert "tpuops" in said(BIN / "tpuops", "--print-completion-script", shell)


def test_completion_offers_tasks_and_flags() -> None:
    assert "cloud.start" in said(BIN / "tpuops", "--complete", "--", "tpuops clou").split()
    assert "--json" in said(BIN / "tpuops", "--complete", "--", "tpuops cloud.start -").split()


def test_tasks_of_one_name_in_two_groups_stay_two() -> None:
    every = [namespace()[name] for name in tasks()]
    assert all(one is other or one != other for one in every for other in every)
