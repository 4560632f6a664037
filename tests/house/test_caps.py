"""The caps hold everywhere, and each of them has been seen to fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.caps import FILE_LINES, FUNCTION_LINES, TOP, excesses, tracked

RUFF = Path(sys.executable).parent / "ruff"


def test_no_file_and_no_function_is_over_its_cap() -> None:
    found = [excess for path in tracked("*.py") for excess in excesses(path.relative_to(TOP), path.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ('"""Long."""\n' + "x = 1\n" * FILE_LINES, f"{FILE_LINES + 1} lines"),
        ('"""Long."""\ndef f():\n' + "    x = 1\n" * FUNCTION_LINES, f"f has {FUNCTION_LINES + 1} lines"),
        ("x = 1\n", "no module docstring"),
    ],
)
def test_a_file_over_a_cap_is_named(source: str, what: str) -> None:
    (found,) = excesses(Path("bad.py"), source)
    assert what in found


def test_a_function_at_its_cap_is_fine_and_its_docstring_does_not_count() -> None:
    body = '    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * (FUNCTION_LINES - 1)
    assert excesses(Path("good.py"), '"""Good."""\ndef f():\n' + body) == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ("C901", "def f(x):\n" + "".join(f"    if x == {n}:\n        x += 1\n" for n in range(8)) + "    return x\n"),
        ("PLR0913", "def f(a, b, c, d, e, g, h):\n    return a\n"),
        ("D100", "x = 1\n"),
        ("BLE001", "try:\n    x = 1\nexcept Exception:\n    x = 2\n"),
        ("S110", "try:\n    x = 1\nexcept Exception:\n    pass\n"),
        ("E722", "try:\n    x = 1\nexcept:\n    x = 2\n"),
        ("TID251", "import subprocess\n\nsubprocess.run(['true'])\n"),
        ("TID251", "import time\n\ntime.sleep(1)\n"),
        ("TID251", "import datetime\n\ndatetime.datetime.now()\n"),
    ],
)
def test_ruff_refuses_what_the_house_does_not_want(rule: str, source: str) -> None:
    command = [RUFF, "check", "--no-cache", "--output-format", "concise", "--stdin-filename", "tpuops/bad.py", "-"]
    result = subprocess.run(command, cwd=TOP, input=source, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f" {rule} " in result.stdout
