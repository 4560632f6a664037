"""Preflight of a run on a slice of four: every worker is looked at and set up, and one odd one keeps all from starting.

Training itself takes one worker as yet, and `train` refuses a larger slice before any call. Here that one rule is out
of force, so that what stands behind it is tried.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lifecycle.conftest import TRAINER, User, made_user
from tests.preflight.test_before_a_run import HOLDER, on_machine, typed
from tests.preflight.test_standing_machines import HOLDING

pytestmark = [pytest.mark.wire, pytest.mark.timeout(400)]
UNBOUND = """#!{python}
from tpuops.lifecycle import run
from tpuops.program import main
run.trainable = lambda environment: None
main(["tpuops", *__import__("sys").argv[1:]])
"""


@dataclass
class Unbound(User):
    """A user whose `tpuops` trains on slices of any size."""

    @property
    def program(self) -> Path:
        """The command."""
        return self.folder / "unbound"


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    made = made_user(tmp_path_factory.mktemp("four"))
    made = Unbound(made.folder, made.env)
    made.program.write_text(UNBOUND.format(python=sys.executable))
    made.program.chmod(0o755)
    made.write(TRAINER, steps="5")
    file = made.folder / "environments/tiny.yaml"
    file.write_text(file.read_text().replace("us-central1-a", "us-central2-b").replace("v3-8", "v4-32"))
    made.run("up")
    yield made
    made.end()


def test_every_worker_is_looked_at_and_set_up_before_the_start(ada: User) -> None:
    done = typed(ada, "train", "-v")
    assert done.returncode == 0, done.stderr
    table = done.stderr[done.stderr.index("preflight: 4 workers ready") :]
    for check, words in (
        ("device", "free"),
        ("bucket", "own identity"),
        ("code", "source [0-9a-f]{12}"),
        ("ports", ""),
    ):
        assert re.search(rf"^0-3 +{check} +ok +.*{words}", table, re.MULTILINE), table
    assert len(on_machine(ada, "ls ~/.tpuops/source", "--worker", "3").split()) == 2  # it, and `current`


def test_one_worker_that_is_in_use_keeps_all_from_starting(ada: User) -> None:
    pid = on_machine(ada, HOLDING.format(env="env", code=HOLDER), "--worker", "2")
    done = typed(ada, "train")
    assert done.returncode == 7, done.stderr
    assert re.search(rf"in use: worker 2: held by process {pid} of", done.stderr), done.stderr
    assert "1 of 4 workers not ready, 1 fault" in done.stderr
    assert "training: run" not in done.stderr
    assert on_machine(ada, "pgrep -f LOCK_E[X]", "--worker", "2") == pid
    on_machine(ada, f"kill {pid}", "--worker", "2")


def test_a_worker_with_another_host_key_is_refused_and_nothing_is_made_anew(ada: User) -> None:
    on_machine(ada, "true", "--worker", "3")
    (known,) = Path(ada.env["TPUOPS_STATE"]).rglob("tpuops-tiny-ada-3.host_keys")
    text = known.read_text()
    known.write_text(re.sub(r"(ssh-\S+ )[^\s\"]+", lambda found: found[1] + STRANGER, text))
    done = typed(ada, "train")
    assert done.returncode == 6, done.stderr  # its machines stand, and are named
    assert "host key" in done.stderr and "tpuops-tiny-ada-3" in done.stderr
    assert "training: run" not in done.stderr
    known.write_text(text)


STRANGER = "AAAAC3NzaC1lZDI1NTE5AAAAIGZlN8Yz4P1bnyqf3DVdGHBP0dwKhcPGcXFdhpEyGYvk"
