"""What a command cannot do is refused before any call, with the line of the field and what to do instead."""

from __future__ import annotations

import re

import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.errors import EnvironmentFileError
from tpuops.lifecycle.down import down, status
from tpuops.lifecycle.run import run, train
from tpuops.lifecycle.story import Source
from tpuops.lifecycle.up import planned, up

pytestmark = pytest.mark.wire

FOUR_WORKERS = (("us-central1-a", "us-central2-b"), ("v3-8", "v4-32"))


@pytest.mark.parametrize("command", [run, train])
def test_training_on_several_workers_is_refused_before_any_call(bench: Bench, command) -> None:
    environment = bench.environment(SMALL, *FOUR_WORKERS)
    mark = bench.last()
    with pytest.raises(EnvironmentFileError) as refused:
        bench.do(environment, lambda site: command(site, Source(environment.source_folder, "digest")))
    assert refused.value.exit_code == 2
    assert re.search(r"tiny\.yaml:5: tpu\.accelerator: v4-32 has 4 workers", "\n".join(refused.value.evidence))
    assert bench.calls(mark) == []


def test_several_workers_are_planned_made_shown_and_removed(bench: Bench) -> None:
    environment = bench.environment(SMALL, *FOUR_WORKERS)
    plan, _ = bench.do(environment, planned)
    assert len(plan.effects) == 3
    assert len(bench.do(environment, up).observed.node.workers) == 4
    assert bench.do(environment, status).observed.node.is_ready
    assert len(bench.do(environment, lambda site: down(site, force=False)).removed) == 2
