"""Whole runs over the wire: success, a bug in the program, a killed controller, an interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.conftest import BUGGY, TRAINER, User, kill

pytestmark = pytest.mark.wire


def training(user: User) -> int | None:
    """The process of the training program as the host sees it, None while there is none."""
    state = os.fsencode(user.env["TPUOPS_STATE"])
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[-2:-1] == [b"train.py"] and state in (entry / "mountinfo").read_bytes():
                    return int(entry.name)
    return None


def test_a_run_ends_done_with_outputs_saved_and_nothing_left(user: User) -> None:
    document = user.run("run")
    assert (document["outcome"], document["attempts"], document["recoveries"]) == ("done", 1, [])
    assert document["remains"] == []
    assert any(saved["name"].endswith("outputs/model.txt") for saved in document["saved"])
    assert any(saved["name"].endswith("train.log") for saved in document["saved"])
    assert user.standing()["nodes"] == []
    assert document["cost_usd"] > 0


def test_a_bug_in_the_program_ends_10_with_its_line_and_is_never_retried(user: User) -> None:
    user.write(BUGGY)
    document = user.run("run", code=10)
    assert document["class"] == "user_code_error"
    assert document["cause"] == "KeyError: 'conv'"
    assert document["attempts"] == 1
    assert any(saved["name"].endswith("outputs/partial.txt") for saved in document["saved"])
    assert user.standing()["nodes"] == []
    creates = [request for request in user.requests() if request["method"] == "tpu.nodes.create"]
    assert len(creates) == 1
    assert any("/evidence/1/" in str(request) for request in user.requests())


def test_a_failed_run_keeps_its_machines_where_the_file_says_keep(user: User) -> None:
    user.write(BUGGY, failure="keep")
    document = user.run("run", code=10)
    assert [left["kind"] for left in document["kept"]] == ["bucket", "node", "vm"]
    assert document["remains"] == []
    assert len(user.standing()["nodes"]) == 1


def test_a_killed_run_is_joined_by_the_next_one_with_the_same_training_process(
    user: User, until: Callable[..., Any]
) -> None:
    user.write(TRAINER, steps="600", pace="0.02")
    first = user.start("run")
    before = until(lambda: training(user))
    until(lambda: [request for request in user.requests() if "run.json" in request["path"]])
    kill(first)
    assert training(user) == before
    second = user.start("run", "--json")
    out, err = second.communicate(timeout=90)
    assert second.returncode == 0, err.decode()
    assert b"attempt 1" in err or b"run: join" in err
    assert training(user) is None
    creates = [request for request in user.requests() if request["method"] == "tpu.nodes.create"]
    assert len(creates) == 1
    assert b"waiting for the lease" not in err
    assert b'"attempts": 1' in out


def test_a_run_is_joined_with_the_local_folder_and_its_key_gone(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="600", pace="0.02")
    first = user.start("run")
    before = until(lambda: training(user))
    until(lambda: [request for request in user.requests() if "run.json" in request["path"]])
    kill(first)
    shutil.rmtree(user.state.parent / "local-tests")
    second = user.start("run", "--json")
    until(lambda: [request for request in user.requests() if request["method"] == "tpu.nodes.patch"])
    assert training(user) == before
    out, err = second.communicate(timeout=90)
    assert second.returncode == 0, err.decode()
    assert json.loads(out)["attempts"] == 1


def test_a_second_controller_is_refused_while_the_first_lives(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="100000", pace="0.02")
    first = user.start("run")
    before = until(lambda: training(user))
    document = user.run("run", code=7)
    assert "is held by" in document["error"]["message"]
    assert first.poll() is None
    assert training(user) == before


def test_one_that_was_told_to_wait_runs_after_the_other(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="150", pace="0.02")
    first = user.start("run", "--json")
    until(lambda: training(user))
    second = user.start("run", "--json", "--wait", "90")
    ends = [json.loads(process.communicate(timeout=90)[0]) for process in (first, second)]
    assert [(end["outcome"], end["attempts"], end["remains"]) for end in ends] == [("done", 1, [])] * 2
    assert len({end["run_id"] for end in ends}) == 2
    assert [request["status"] for request in user.requests() if request["method"] == "tpu.nodes.create"] == [200, 200]


def test_ctrl_c_keeps_the_training_and_says_how_to_come_back(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="600", pace="0.02")
    first = user.start("run")
    before = until(lambda: training(user))
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 130, err.decode()
    assert b"tpuops run --env tiny" in err
    assert training(user) == before
    assert user.run("run")["attempts"] == 1


def test_sigterm_ends_143_and_deletes_where_the_file_says_so(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="300", pace="0.02", interrupt="delete")
    first = user.start("run")
    until(lambda: training(user))
    first.send_signal(signal.SIGTERM)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 143, err.decode()
    uploads = [request["resource"] for request in user.requests() if request["method"] == "storage.objects.insert"]
    assert any("/saved/logs/1/train.log" in name for name in uploads), uploads
    assert user.standing()["nodes"] == []
    assert user.standing()["instances"] == []
