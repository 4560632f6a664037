"""`doctor` looks at machines that stand, on one worker and on four, and `--fix` clears what an earlier run left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lifecycle.conftest import User, made_user
from tests.preflight.test_before_a_run import HOLDER, on_machine

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]
HOLDING = (
    'setsid {env} python3 -c "{code}" >/tmp/held 2>&1 </dev/null & '
    "until test -s /tmp/held; do sleep 0.1; done; pgrep -f LOCK_E[X]"
)


@pytest.fixture(scope="module")
def slice_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Four workers that stand; before, there is nothing to look at."""
    made = made_user(tmp_path_factory.mktemp("slice"))
    file = made.folder / "environments/tiny.yaml"
    file.write_text(file.read_text().replace("us-central1-a", "us-central2-b").replace("v3-8", "v4-32"))
    assert machines(made)["state"] == "skipped"
    made.run("up")
    yield made
    made.end()


def machines(user: User, *words: str, code: int = 0) -> dict[str, Any]:
    findings = user.run("doctor", *words, code=code)["findings"]
    return dict(next(row for row in findings if row["check"] == "machines"))


def test_four_workers_are_looked_at_together_and_the_odd_one_is_named(slice_: User) -> None:
    found = machines(slice_)
    assert (found["state"], found["what"]) == ("ok", "4 workers of tpuops-tiny-ada ready")
    pid = on_machine(slice_, HOLDING.format(env="env", code=HOLDER), "--worker", "2")
    found = machines(slice_, code=7)
    assert (found["state"], found["class"]) == ("broken", "tpu-in-use")
    assert f"worker 2 of tpuops-tiny-ada is not ready: device: held by process {pid} of" in found["what"]
    assert f"--worker 2 --command 'sudo kill {pid}'" in found["hint"]
    assert on_machine(slice_, "pgrep -f LOCK_E[X]", "--worker", "2") == pid
    on_machine(slice_, f"kill {pid}", "--worker", "2")
    pid = on_machine(slice_, HOLDING.format(env="env TPUOPS_RUN_ID=old", code=HOLDER), "--worker", "1")
    assert machines(slice_, "--fix", "--yes")["state"] == "ok"
    assert on_machine(slice_, f"kill -0 {pid} 2>/dev/null || echo gone", "--worker", "1") == "gone"


def test_two_people_who_look_at_a_slice_at_once_both_find_it_ready(slice_: User) -> None:
    together = [slice_.start("doctor", "--json") for _ in range(2)]
    for process in together:
        out, err = process.communicate(timeout=90)
        found = next(row for row in json.loads(out)["findings"] if row["check"] == "machines")
        assert (found["state"], found["what"]) == ("ok", "4 workers of tpuops-tiny-ada ready"), err.decode()
