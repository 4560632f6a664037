"""What only a person at a terminal can mend: gcloud's login gets the terminal, and elsewhere is printed.

Google cannot be asked here: a program called gcloud stands for its login, and says what it was asked, and on what.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.messages.terminal import Terminal

from .conftest import FILE, Clinic

LOGIN = """#!/bin/sh
[ "$1" = auth ] || exit 0
[ -t 0 ] && echo "asked on a terminal: gcloud $*"
read -r answer
echo "code: $answer"
exit 1
"""


@pytest.fixture
def bare(clinic: Clinic, tmp_path: Path) -> Clinic:
    """A bare laptop, and an environment on Google."""
    clinic.write(FILE.replace("cloud: local", "cloud: google").replace("local-tests", "digits-project"))
    folder = tmp_path / "gcloud-bin"
    folder.mkdir()
    (folder / "gcloud").write_text(LOGIN)
    (folder / "gcloud").chmod(0o755)
    clinic.env |= {"PATH": f"{folder}:{clinic.env['PATH']}:/usr/bin:/bin", "NO_GCE_CHECK": "true"}
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        clinic.env.pop(name, None)
    return clinic


def test_without_a_terminal_the_login_is_printed(bare: Clinic) -> None:
    seen = bare.doctor("--fix", "--yes", code=3)
    seen.is_broken("credentials", "credentials-none", "gcloud auth application-default login")
    assert seen["credentials"]["fix"]["command"] == "gcloud auth application-default login --no-launch-browser"
    assert [row["result"] for row in seen.document["fixes"]] == ["needs a person at a terminal"]
    assert json.dumps(seen.document).count("means nothing before") > 3


def test_on_a_terminal_gcloud_is_asked_to_log_in_after_a_yes(bare: Clinic) -> None:
    tpuops = str(Path(sys.executable).parent / "tpuops")
    with Terminal([tpuops, "doctor", "--env", "tiny", "--fix"], bare.folder, bare.env) as terminal:
        terminal.until(r"shall I log in to Google, which asks you who you are in a browser\? \[y/N\]")
        terminal.type("y", "Enter")
        terminal.until("asked on a terminal: gcloud auth application-default login --no-launch-browser")
        terminal.type("4/abc", "Enter")
        code, screen = terminal.ended()
    assert code == 3
    assert "code: 4/abc" in screen
    assert "ended with 1" in screen
