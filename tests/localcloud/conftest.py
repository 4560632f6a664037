"""The embedded cloud under test: over the wire with Google's own clients, and its core in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cloud_fixture import LocalCloud, bare_cloud, cloud  # noqa: F401 (fixtures)
from tests.localcloud.talk import Talk


@pytest.fixture
def talk() -> Talk:
    """A core of its own, in virtual time."""
    return Talk()


@pytest.fixture(scope="session")
def _one_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    served = LocalCloud(tmp_path_factory.mktemp("shared") / "cloud", "--seed", "1", "--no-machines")
    served.start()
    yield served
    served.stop()


@pytest.fixture
def shared_cloud(_one_cloud: LocalCloud) -> Iterator[LocalCloud]:
    """One bare cloud for all tests that neither stop nor kill it; empty for each of them."""
    yield _one_cloud
    _one_cloud.ask("POST", "/_cloud/reset")
