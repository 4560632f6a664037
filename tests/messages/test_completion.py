"""Shell completion, pressed for real in each shell; every shell's script asks the same question of the same program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.messages.terminal import Terminal

BIN = Path(sys.executable).parent
CHECKOUT = Path(__file__).resolve().parents[2]
FILE = "version: 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two environments, whose contents nobody reads here."""
    (tmp_path / "environments").mkdir()
    for name in ("nightly", "tiny"):
        (tmp_path / "environments" / f"{name}.yaml").write_text(FILE)
    return tmp_path


def asked(folder: Path, *words: str) -> list[str]:
    command = [BIN / "tpuops", "--complete", "--", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=30).stdout.split()


SHELLS = {
    "bash": (("bash", "--norc", "-i"), "source <(tpuops --print-completion-script bash)"),
    "zsh": (("zsh", "-f", "-i"), "source <(tpuops --print-completion-script zsh)"),
    "fish": (("fish", "--no-config", "-i"), "tpuops --print-completion-script fish | source"),
}


@pytest.mark.parametrize("shell", [name for name in SHELLS if shutil.which(name)])
def test_tab_completes_tasks_flags_and_environments_in_each_shell_that_is_here(folder: Path, shell: str) -> None:
    words, source = SHELLS[shell]
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    with Terminal(words, folder, env) as terminal:
        terminal.until(r"[#$%>] *$")
        terminal.type(f"{source}; echo rea''dy", "Enter")
        terminal.until(r"^ready$")
        terminal.until(r"[#$%>] *$")
        for typed, seen in (
            ("tpuops stat", "tpuops status"),
            ("--wat", "tpuops status --watch"),
            ("--env ni", "tpuops status --watch --env nightly"),
            ("--cloud l", "--env nightly --cloud local"),
        ):
            terminal.type(typed, "Tab")
            terminal.until(rf"{seen} *$")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("tpuops", "up", "--env"), "nightly"),
        (("tpuops", "up", "-e", "t"), "tiny"),
        (("tpuops up --env t",), "tiny"),
        (("tpuops", "up", "--env", "=", "t"), "v3-8"),
        (("tpuops", "up", "--env", "tiny"), "cloud.start"),
        (("tpuops", "up", "--cloud"), "local"),
        (("tpuops", "up", "--dry"), "--dry-run"),
        (("tpuops",), "env.list"),
    ],
)
def test_a_value_is_suggested_until_it_is_whole(folder: Path, words: tuple[str, ...], found: str) -> None:
    assert found in asked(folder, *words)


def test_invoke_in_the_checkout_suggests_the_same() -> None:
    command = [BIN / "invoke", "--complete", "--", "invoke", "up", "--env", "v"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=30)
    assert {"v3-8", "example"} <= set(done.stdout.split())


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "compctl -K _complete_tpuops"), ("fish", "complete --command tpuops")]
)
def test_the_other_shells_scripts_ask_the_same_program(shell: str, line: str) -> None:
    command = [BIN / "tpuops", "--print-completion-script", shell]
    script = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    assert line in script
    assert "tpuops" in script and "--complete --" in script
