"""Every answer of the reaper to what it sees, as a process against the embedded cloud, and that each guard matters."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from tests.lifecycle.reaper_cases import REAL, broken, mutated, program

pytestmark = [pytest.mark.wire, pytest.mark.timeout(400)]

MUTANTS = {
    "age-ignored": ("switch.py", 'seen["age_s"] > grace_s', "True", "renewed"),
    "holder-s-grace-ignored": (
        "switch.py",
        'max(orders["grace_s"], seen["grace_s"])',
        'orders["grace_s"]',
        "patient",
    ),
    "own-clock": ("switch.py", "google.when - updated", "time.time() - updated", "wrong-clock"),
    "doubt-is-death": ("switch.py", 'return WAIT, "the lease cannot', 'return REAP, "the lease cannot', "unreadable"),
    "no-lease-is-death": ("switch.py", '(WAIT, "free")', '(REAP, "free")', "none"),
    "the-end-is-forgotten": ("switch.py", 'seen["now"] > orders["end"]', "False", "none-and-over"),
    "the-end-before-the-lease": (
        "switch.py",
        'seen["age_s"] > grace_s',
        'seen["age_s"] > grace_s or ended',
        "renewed-and-over",
    ),
    "no-guard-of-the-queue": ("switch.py", 'if past["queued"]', "if False", "queued"),
    "who-came-is-forgotten": ("switch.py", 'not past["checked_in"]', "True", "queued-and-met"),
    "no-fence": ("switch.py", "if self.blind:", "if True:", "unwritable"),
    "the-fence-is-not-looked-at-again": (
        "machines.py",
        "if not fence.renew():  # the looks",
        "if fence.renew() is None:  # the looks",
        "taken-back",
    ),
    "everything-is-ours": ("machines.py", "if not is_ours(orders, labels(found)):", "if False:", "foreign-vm"),
    "one-failure-ends-it": (
        "__main__.py",
        "except api.Failed as error:\n            problems",
        "except KeyError as error:\n            problems",
        "undeletable-vm",
    ),
    "only-the-tpu": ("__main__.py", '("vm", machines.vm_of), ', "", "stale"),
    "only-the-vm": ("__main__.py", ', ("node", machines.node_of)]', "]", "stale"),
    "the-queue-is-forgotten": ("machines.py", "[*found, (own, own, labels_of)]", "[(own, own, labels_of)]", "queued"),
    "what-cannot-be-parsed-lives": ("switch.py", "<= 86400 else 0", "<= 86400 else 86400", "not-json"),
}
"""A guard of the reaper in its own text, what stands there instead, and the case that must notice."""


PARTS = 4


def chosen() -> list[str]:
    """Today's part of the mutants, or all of them with TPUOPS_MUTANTS=all."""
    names = sorted(MUTANTS)
    if os.environ.get("TPUOPS_MUTANTS") == "all":
        return names
    return names[datetime.now(UTC).date().toordinal() % PARTS :: PARTS]


def test_each_case_ends_as_it_has_to_and_each_missing_guard_is_noticed() -> None:
    programs = {name: (mutated(*MUTANTS[name][:3]), MUTANTS[name][3:]) for name in chosen()}
    found = broken({REAL: (program(), ()), **programs})
    assert not found[REAL], "\n".join(found[REAL])
    assert [name for name in programs if not found[name]] == []
