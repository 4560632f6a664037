"""What is printed can be typed as it stands, also by whoever came through Invoke; and it fits the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.messages.terminal import Terminal
from tpuops.tasks.spelling import spelled

BIN = Path(sys.executable).parent
CHECKOUT = Path(__file__).resolve().parents[2]


TASKS = ("up", "env.list", "run")


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("next: tpuops up --env a  makes it", "next: ./invoke up --env a  makes it"),
        ("hint: `tpuops env.list` shows them", "hint: `./invoke env.list` shows them"),
        ("tpuops cannot watch the run any more", "tpuops cannot watch the run any more"),
        ("tpuops upsets nobody, tpuops env.lists too", "tpuops upsets nobody, tpuops env.lists too"),
        ("gs://tpuops run is/tpuops run", "gs://tpuops run is/tpuops run"),
        ("  | tpuops up is what the training said", "  | tpuops up is what the training said"),
    ],
)
def test_only_commands_are_spelled_anew(line: str, reads: str) -> None:
    assert spelled("./invoke", TASKS)(line) == reads
    assert spelled("/usr/bin/tpuops", TASKS)(line) == line


def test_a_hint_can_be_typed_the_way_the_command_was() -> None:
    def said(program: str, path: str) -> str:
        env = {**os.environ, "PATH": path}
        pipe = subprocess.PIPE
        done = subprocess.run([program, "plan"], cwd=CHECKOUT, env=env, stderr=pipe, text=True, check=False, timeout=30)
        assert done.returncode == 2
        return done.stderr

    assert "`invoke env.list`" in said("invoke", f"{BIN}:{os.environ['PATH']}")
    assert f"`{BIN}/invoke env.list`" in said(f"{BIN}/invoke", "/usr/bin:/bin")
    assert "`tpuops env.list`" in said(f"{BIN}/tpuops", "/usr/bin:/bin")


def test_a_table_is_folded_between_words_where_the_terminal_is_narrow(tmp_path: Path) -> None:
    script = (
        "from tpuops.report.run import table;"
        "print(table(('name', 'why'), [('n' * 30, 'no such node, and so it is made anew beside the others here')]))"
    )
    with Terminal([sys.executable, "-c", script], tmp_path, dict(os.environ), columns=60) as terminal:
        code, screen = terminal.ended()
    assert code == 0
    assert max(map(len, screen.splitlines())) <= 60
    assert [line.split()[-1] for line in screen.splitlines()] == ["why", "is", "others", "here"]
