"""Ctrl-C in each command that takes time says what goes on and how to come back; a followed log outlives attempts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.lifecycle.conftest import TRAINER, User, kill, made_user
from tests.lifecycle.test_commands import supervised, supervisor, wait
from tests.lifecycle.test_run import training as process_of
from tests.messages.terminal import Terminal

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """One environment that is up, for all tests of this module."""
    made = made_user(tmp_path_factory.mktemp("leaving"))
    made.write(TRAINER, steps="100000", pace="0.05")
    made.run("up")
    yield made
    made.end()


@pytest.fixture
def training(shared: User) -> User:
    """The same while a run lives under `train`."""
    if process_of(shared) is None or supervisor_of(shared) is None:
        if process_of(shared) is None:
            supervised(shared, "train")
        else:
            shared.start("train")
    return shared


def supervisor_of(user: User) -> object | None:
    return next((process for process in user.started if process.poll() is None), None)


def left(user: User, until: str, *words: str) -> str:
    """The screen of a command that Ctrl-C ended, as one line."""
    with Terminal([str(user.program), *words], user.folder, user.env) as terminal:
        terminal.until(until)
        terminal.type("C-c")
        code, screen = terminal.ended()
    assert code == 130, screen
    return " ".join(screen.split())


def test_a_log_that_is_left_leaves_the_training(training: User) -> None:
    before = process_of(training)
    said = left(training, r"step=\d+ loss", "logs", "--follow")
    assert "only the log was left; attempt 1 of run" in said
    assert "tpuops logs --env tiny --follow goes on following" in said
    assert process_of(training) == before


def test_a_watch_that_is_left_says_that_all_goes_on(training: User) -> None:
    before = process_of(training)
    said = left(training, r"run: .* is open", "status", "--watch")
    assert "only the watching ended; what stands, and a run on it, goes on" in said
    assert "tpuops logs --env tiny --follow shows its log" in said
    assert process_of(training) == before


def test_attach_says_beforehand_how_to_leave_and_how_to_come_back(training: User) -> None:
    before = process_of(training)
    for _ in range(2):
        with Terminal([str(training.program), "attach"], training.folder, training.env) as terminal:
            terminal.until(r"step=\d+ loss=")
            terminal.type("C-b", "d")
            code, screen = terminal.ended()
        assert code == 0
    assert process_of(training) == before
    assert "Ctrl-b d leaves it, and the training goes on" in screen
    assert "`tpuops attach --env tiny` comes back" in screen


def test_train_that_is_left_names_what_stays_and_a_second_one_joins_it(training: User) -> None:
    kill(supervisor(training))
    before = process_of(training)
    said = left(training, r"\| step=\d+", "train")
    assert "interrupted; these stay, and a training on them goes on" in said
    assert "tpuops train --env tiny supervises it again" in said
    assert process_of(training) == before
    assert "step=" in left(training, r"\| step=\d+", "train")
    assert process_of(training) == before


def test_a_followed_log_goes_on_over_a_recovery(training: User) -> None:
    wait(lambda: training.run("status")["supervised"])
    process = training.start("logs", "--follow")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"step=0 ")
    before = process_of(training)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    lines = iter(process.stdout.readline, b"")
    again = next((line for line in lines if line.startswith(b"step=0 ")), b"")
    assert again, process.communicate(timeout=30)[1].decode()
    assert next(lines).startswith(b"step=1 ")
    assert process_of(training) not in {None, before}
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert b"attempt 1 ended; going on with attempt 2" in err
    assert b"only the log was left; attempt 2 of run" in err
    assert process.returncode == 130


def test_up_that_is_left_says_what_goes_on_in_the_cloud_and_is_finished_by_another(shared: User) -> None:
    shared.run("down", "--yes")
    said = left(shared, r"node .*: creating", "up")
    assert "what was begun goes on in the cloud, and bills" in said
    assert "tpuops up --env tiny finishes it" in said
    assert [row["state"] for row in shared.run("up")["resources"]] == ["present", "READY", "RUNNING"]
    assert len(shared.standing()["nodes"]) == 1
