"""A new member of the team: an empty home, a clone of the repository, one command; a colleague's run stays safe."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import private
from tests.lifecycle.conftest import TRAINER, User, kill, made_user
from tests.lifecycle.test_commands import done, wait

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Ada, whose repository has one environment of the team's and one that is everybody's own; both train."""
    made = made_user(tmp_path_factory.mktemp("ada"))
    made.write(TRAINER, steps="100000", pace="0.05")
    file = made.folder / "environments/tiny.yaml"
    (made.folder / "environments/shared.yaml").write_text(file.read_text().replace("zone:", "owner: team\nzone:"))
    (made.folder / ".gitignore").write_text("state/\n")
    git(made.folder, "init", "--quiet")
    git(made.folder, "add", ".")
    git(made.folder, "commit", "--quiet", "-m", "Train")
    try:
        for name in ("tiny", "shared"):
            made.env["TPUOPS_ENV"] = name
            made.start("run")
        wait(lambda: len(trainings(made)) == 2)
        yield made
    finally:
        made.end()


def trainings(user: User) -> set[int]:
    """Every training process on the machines of this user's cloud."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, env = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            inside = str(user.state).encode() in (process / "mountinfo").read_bytes()
        except OSError:
            continue
        if words.split(b"\0")[-2:-1] == [b"train.py"] and b"TPUOPS_RUN_ID=" in env and inside:
            found.add(int(process.name))
    return found


@pytest.fixture(scope="module")
def bob(ada: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Bob on a machine of his own: another home, no key, no state; only the cloud is the same."""
    folder = tmp_path_factory.mktemp("bob")
    git(folder, "clone", "--quiet", str(ada.folder), "checkout")
    env = {**os.environ, **private(folder / "home"), "TPUOPS_OWNER": "bob", "TPUOPS_ENV": "shared"}
    state = Path(env["TPUOPS_STATE"])
    state.mkdir(parents=True)
    (state / "cloud").symlink_to(ada.state)
    made = User(folder / "checkout", env)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_one_command_joins_and_the_next_says_who_runs_what(ada: User, bob: User) -> None:
    joined = done(bob, "doctor", "--fix", "--yes")
    assert joined.returncode == 0, joined.stdout + joined.stderr
    seen = done(bob, "status")
    assert seen.returncode == 0
    assert "begun by ada" in seen.stdout
    assert "lease: held by ada on" in seen.stdout
    everything = bob.run("status", "--all", "--cloud", "local")
    (other,) = everything["others"]
    assert (other["name"], other["owner"], other["environment"]) == ("tpuops-tiny-ada", "ada", "tiny")
    assert (other["run_state"], other["begun_by"]) == ("running", "ada")
    assert other["supervised_by"].startswith("ada on ")
    mine = next(row for row in everything["environments"] if row["environment"] == "tiny")
    assert [row["state"] for row in mine["resources"]] == ["absent"] * 3


def test_no_command_of_the_new_member_ends_a_colleagues_run(ada: User, bob: User) -> None:
    before = trainings(ada)
    assert len(before) == 2
    for words in (
        ("stop", "--yes"),
        ("down", "--yes"),
        ("down", "--discard", "--yes"),
        ("train", "--yes"),
        ("run", "--yes"),
    ):
        refused = bob.run(*words, code=7)
        assert "ada on" in refused["error"]["message"], words
    changed = bob.folder / "source/train.py"
    changed.write_text(changed.read_text() + "# mine\n")
    assert "ada on" in bob.run("train", "--yes", code=7)["error"]["message"]
    git(bob.folder, "checkout", "--quiet", "source")
    assert trainings(ada) == before


def test_looking_in_on_it_is_free(ada: User, bob: User) -> None:
    before = trainings(ada)
    log = done(bob, "logs")
    assert log.returncode == 0 and "step=" in log.stdout, log.stderr
    inside = done(bob, "ssh", "--command", "echo inside")
    assert (inside.returncode, inside.stdout.strip()) == (0, "inside"), inside.stderr
    assert trainings(ada) == before


def test_a_colleagues_run_that_nobody_supervises_is_named_before_anything_is_done(ada: User, bob: User) -> None:
    """Ada's machine died; the training lives. Without a word from Bob nothing happens to it, and he can take it on."""
    before = trainings(ada)
    kill(ada.started[1])
    for words in (("stop",), ("down",), ("stop", "--yes"), ("down", "--yes")):
        refused = bob.run(*words, code=7)
        assert "begun by ada" in refused["error"]["message"]
    assert trainings(ada) == before
    bob.start("train")
    wait(lambda: bob.run("status")["lease"]["user"] == "bob")
    assert trainings(ada) == before
    assert bob.run("status")["run"]["by"] == "ada"
    taken = done(ada, "stop", "--yes")
    assert taken.returncode == 7 and "bob on" in taken.stderr
    assert bob.run("stop", "--yes")["outcome"] == "stopped"  # he took it on
    assert len(trainings(ada)) == 1
