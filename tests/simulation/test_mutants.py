"""The properties can fail: guards are taken out of the product by hand, and something must notice each time.

CI tries a part of the list in `mutants.py` that moves on each day; TPUOPS_MUTANTS=all tries the whole of it.
"""

from __future__ import annotations

import gc
import os
from datetime import UTC, datetime

import pytest

from tests.simulation.mutants import EQUIVALENT, MUTANTS, Mutant, tried
from tests.simulation.notices import BROKEN, pause

PARTS = 3


def part() -> list[Mutant]:
    """Today's mutants, or all of them."""
    if os.environ.get("TPUOPS_MUTANTS") == "all":
        return list(MUTANTS)
    return list(MUTANTS)[datetime.now(UTC).date().toordinal() % PARTS :: PARTS]


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mutant", part(), ids=lambda mutant: mutant.__name__)
def test_a_missing_guard_is_noticed(mutant: Mutant) -> None:
    assert tried(mutant), f"nobody noticed the mutant {mutant.__name__}"
    gc.collect()  # a life that ends in no order leaves coroutines behind: they are no later test's


def test_the_list_is_long_and_what_notices_is_silent_about_the_product_itself() -> None:
    assert len(MUTANTS) >= 20
    assert not set(MUTANTS) & set(EQUIVALENT)
    assert pause("storage.objects.insert")() == []
    assert pause("compute.instances.get", BROKEN, BROKEN, call=4)() == []
