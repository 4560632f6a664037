"""What the README says is so: its commands exist with their flags, its environment loads, its exit codes are ours."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tpuops import errors
from tpuops.environment import load
from tpuops.tasks.namespace import namespace

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"(?:`|\(|bin/)(?:tpuops|invoke) ([a-z][a-z.]*(?: --?[a-z][a-z-]*)*)", README)))


def flags(name: str) -> set[str]:
    """By the signature: Invoke's own list of a task's arguments takes their help texts with it."""
    return set(inspect.signature(namespace()[name].body).parameters)


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_is_a_task_with_these_flags(words: str) -> None:
    name, *given = words.split()
    assert {flag.lstrip("-").replace("-", "_") for flag in given} <= flags(name)


def test_every_task_is_in_the_readme() -> None:
    missing = [name for name in namespace().task_names if name not in README]
    assert missing == []


def test_the_environment_in_the_readme_loads(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "templates/digits").mkdir(parents=True)
    file = tmp_path / "environments" / "mine.yaml"
    file.write_text(README.partition("```yaml\n")[2].partition("```")[0])
    assert load(file).tpu.accelerator == "v3-8"


def test_the_exit_codes_are_those_of_the_error_tree() -> None:
    listed = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", README, re.M) for code in row.split(",")}
    every = [errors.TpuopsError]
    for each in every:
        every += each.__subclasses__()
    assert {each.exit_code for each in every if each.__module__ == "tpuops.errors"} | {0, 130, 143} == listed


def test_both_first_commands_are_one_line_each_and_begin_with_the_installer() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.S)
    assert [block.count("\n") for block in blocks[:2]] == [1, 1]
    assert all(block.startswith(".ci/install && .venv/bin/invoke ") for block in blocks[:2])
