"""What is said and kept of the source: large files before anything is made, the commit and what differs from it."""

from __future__ import annotations

import subprocess

import pytest

from tests.lifecycle.conftest import User

pytestmark = pytest.mark.wire


def git(user: User, *words: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@e", *words]
    done = subprocess.run(command, cwd=user.folder, env=user.env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_large_files_are_named_and_the_run_remembers_its_commit(user: User) -> None:
    git(user, "init", "-q", "--template=")
    (user.folder / ".gitignore").write_text("state/\n*.tmp\n")
    git(user, "add", ".")
    git(user, "commit", "-q", "-m", "first")
    commit = git(user, "rev-parse", "HEAD")
    (user.folder / "source" / "dump.bin").write_bytes(bytes(11 << 20))
    (user.folder / "source" / "ignored.tmp").write_bytes(bytes(12 << 20))
    process = user.start("run")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err.decode()
    lines = err.decode().splitlines()
    assert "source: 2 file(s), 11.0 MiB, are sent to each worker" in lines
    assert "  11.0 MiB  dump.bin" in lines
    assert lines.index("  11.0 MiB  dump.bin") < next(n for n, line in enumerate(lines) if "creating" in line)
    assert "ignored.tmp" not in err.decode()
    assert f"source: commit {commit[:12]} and 1 change(s) that are not committed" in out.decode()
    run = user.run("status")["run"]
    assert (run["commit"], run["changed"]) == (commit, 1)
