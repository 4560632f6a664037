"""The embedded cloud under test: over the wire with Google's own clients, and its core in virtual time."""

from __future__ import annotations

import pytest

from tests.cloud_fixture import bare_cloud, cloud  # noqa: F401 (fixtures)
from tests.localcloud.talk import Talk


@pytest.fixture
def talk() -> Talk:
    """A core of its own, in virtual time."""
    return Talk()
