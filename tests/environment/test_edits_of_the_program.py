"""What a living run was started with cannot be edited behind its back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.environment.conftest import SMALL
from tests.lifecycle.conftest import TRAINER, User, kill, until, user  # noqa: F401
from tests.lifecycle.test_run import training
from tpuops.environment import load
from tpuops.remote.port import AgentStatus
from tpuops.stages.record import RUNNING, RunRecord, parse
from tpuops.stages.run import Entry, SourceChanged, enter, program_of

LIVES = AgentStatus("b", "r1", 1, 7, alive=True)


def written(folder: Path, *swaps: tuple[str, str]) -> str:
    """The program's digest of the small file, with pieces of it swapped."""
    text = SMALL.replace("<project>", "local-p")
    for old, new in swaps:
        text = text.replace(old, new)
    path = folder / "tiny.yaml"
    path.write_text(text)
    return program_of(load(path))


@pytest.mark.parametrize(
    "edit",
    [
        ("train.py]", "other.py]"),
        ("train.py]", "train.py], env: {A: b}"),
        ("train.py]", "train.py], setup: [[make]]"),
        ("train.py]", "train.py], outputs: [results]"),
        ("train.py]", "train.py], secrets: {A: {env: B}}"),
    ],
)
def test_each_part_of_the_program_counts(tmp_path: Path, edit: tuple[str, str]) -> None:
    record = RunRecord("r1", RUNNING, "digest", "", program=written(tmp_path))
    assert parse(record.data()) == record
    with pytest.raises(SourceChanged) as refused:
        enter(record, LIVES, "digest", "1", written(tmp_path, edit))
    assert refused.value.exit_code == 7


def test_what_is_no_part_of_it_may_change_and_an_older_record_is_joined(tmp_path: Path) -> None:
    record = RunRecord("r1", RUNNING, "digest", "", program=written(tmp_path))
    other = written(
        tmp_path,
        ("train.py]", "train.py], progress: 'n=(.)', stall: {start: 2h}"),
        ("vm:", "limits: {runtime: 9d}\nvm:"),
    )
    assert enter(record, LIVES, "digest", "1", other).entry is Entry.JOIN
    older = RunRecord("r1", RUNNING, "digest", "")
    assert enter(older, LIVES, "digest", "1", other).entry is Entry.JOIN


@pytest.mark.wire
def test_a_run_that_lives_is_not_joined_with_another_command(user: User, until: Callable[..., Any]) -> None:  # noqa: F811
    user.write(TRAINER, steps="100000")
    first = user.start("run")
    before = until(lambda: training(user))
    until(lambda: [request for request in user.requests() if "run.json" in request["path"]])
    kill(first)
    user.write(TRAINER, steps="100001")
    document = user.run("run", code=7)
    assert "env, secrets or outputs were changed" in document["error"]["message"]
    assert training(user) == before
