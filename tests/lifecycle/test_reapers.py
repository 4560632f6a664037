"""Machines whose controller is gone end by themselves, and only then: over the wire, in scaled time.

`abandoned` is seconds here instead of minutes; everything else that follows from it (renewals, when a controller knows
that it lost its lease, how often reapers look) is scaled with it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.lifecycle.conftest import TRAINER, User, kill

pytestmark = pytest.mark.wire

GRACE_S = 12.0
MARGIN_S = 60.0
"""Looks, the training's end, its outputs and the deletions, on a machine that does much else at once."""


@pytest.fixture
def hurried(user: User) -> User:
    """The user with an environment whose machines wait seconds."""
    user.write(TRAINER, steps="100000", pace="0.05")
    path = user.folder / "environments" / "tiny.yaml"
    path.write_text(path.read_text() + f"limits: {{abandoned: {GRACE_S:.0f}s}}\n")
    return user


def stepping(user: User) -> bool:
    """Whether the training has written a step."""
    return any(b"step=" in path.read_bytes() for path in user.state.rglob("train.log"))


def gone(user: User) -> bool:
    standing = user.standing()
    return not standing["nodes"] and not standing["instances"]


def test_after_a_killed_controller_everything_ends_by_itself_with_its_outputs_saved(
    hurried: User, until: Callable[..., Any]
) -> None:
    controller = hurried.start("run")
    until(lambda: stepping(hurried))
    kill(controller)
    killed = time.monotonic()
    until(lambda: gone(hurried), GRACE_S + MARGIN_S)
    assert time.monotonic() - killed > GRACE_S / 2, "it was deleted before the lease can have been stale"
    print([r["method"] + " " + r["resource"] for r in hurried.requests() if r["mutating"]][-30:])
