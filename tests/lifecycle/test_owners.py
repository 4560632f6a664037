"""Two people, one environment file: own names and no accident, or a team's one environment under the lock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lifecycle.conftest import ENVIRONMENT, TRAINER, User, kill, made_user
from tests.lifecycle.test_commands import supervised, supervisor
from tests.lifecycle.test_run import training as process_of

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Ada, with two environments: `tiny` is everybody's own, `shared` the team's."""
    made = made_user(tmp_path_factory.mktemp("owners"))
    made.write(TRAINER, steps="100000", pace="0.05")
    own = (made.folder / "environments" / "tiny.yaml").read_text()
    assert "version: 1" in ENVIRONMENT
    (made.folder / "environments" / "shared.yaml").write_text(own.replace("zone:", "owner: team\nzone:"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def bob(ada: User) -> Iterator[User]:
    """Bob, in the same checkout, on the same cloud."""
    made = User(ada.folder, {**ada.env, "TPUOPS_OWNER": "bob"})
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def nodes(user: User) -> list[str]:
    return sorted(str(node.get("name", node)).rpartition("/")[2] for node in user.standing()["nodes"])


def test_one_file_gives_each_their_own_and_neither_ends_the_others(ada: User, bob: User) -> None:
    ada.run("up")
    assert [row["state"] for row in bob.run("status")["resources"]] == ["absent"] * 3
    assert bob.run("down", "--yes")["removed"] == []
    assert bob.run("stop", "--yes")["run_id"] == ""
    assert nodes(ada) == ["tpuops-tiny-ada"]
    bob.run("up")
    assert nodes(ada) == ["tpuops-tiny-ada", "tpuops-tiny-bob"]
    assert ada.run("down")["removed"] == ["tpuops-tiny-ada", "tpuops-tiny-ada-vm"]
    assert nodes(bob) == ["tpuops-tiny-bob"]


def test_a_team_shares_one_environment_and_a_supervised_run_is_its_supervisors(ada: User, bob: User) -> None:
    for each in (ada, bob):
        each.env["TPUOPS_ENV"] = "shared"
    before = supervised(ada, "run")
    for words in (("train",), ("stop", "--yes"), ("down", "--yes")):
        found = bob.run(*words, code=7)
        assert "ada on" in found["error"]["message"]
    assert process_of(ada) == before
    kill(supervisor(ada))
    assert "begun by ada" in bob.run("down", code=7)["error"]["message"]
    assert process_of(ada) == before
    for words in (("stop", "--yes"), ("down", "--yes")):
        error = bob.run(*words, code=7)["error"]
        assert "begun by ada" in error["message"]
        assert "--yes is no word of ada's: ask ada, then put TPUOPS_OWNER=ada before the command" in error["hint"]
    changed = bob.folder / "source/train.py"
    text = changed.read_text()
    changed.write_text(text + "# mine\n")
    assert "begun by ada" in bob.run("train", "--yes", code=7)["error"]["message"]
    changed.write_text(text)
    assert process_of(ada) == before
    assert ada.run("stop", "--yes")["outcome"] == "stopped"
    assert bob.run("status")["run"]["by"] == "ada"
