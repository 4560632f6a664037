"""The lifecycle in this process against an embedded cloud without machines, each test in a project of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.cloud_fixture import LocalCloud
from tpuops.clock import SystemClock
from tpuops.embedded import Stage
from tpuops.environment import Environment, load
from tpuops.journal import Event
from tpuops.lifecycle.opening import Opening, open_site
from tpuops.lifecycle.site import Site
from tpuops.stages.holders import USUAL

Result = TypeVar("Result")

SMALL = """\
version: 1
cloud: local
project: <project>
zone: us-central1-a
tpu: {accelerator: v3-8, runtime: tpu-ubuntu2204-base}
vm: {machine_type: e2-small}
train: {source: ., command: [python3, train.py]}
"""


class HastyClock(SystemClock):
    """Nobody waits for capacity here: every sleep is short, but for that of the lease between two renewals."""

    async def sleep(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s if wait_s == USUAL.renew_s else min(wait_s, 0.05))


@dataclass
class Bench:
    """One test's project on the cloud."""

    cloud: LocalCloud
    folder: Path
    project: str
    events: list[Event] = field(default_factory=list)

    def environment(self, text: str = SMALL, *swaps: tuple[str, str], name: str = "tiny") -> Environment:
        """An environment from a text, with pieces of it swapped."""
        for old, new in swaps:
            assert old in text, old
            text = text.replace(old, new)
        path = self.folder / f"{name}.yaml"
        path.write_text(text.replace("<project>", self.project))
        return load(path)

    @asynccontextmanager
    async def site(self, environment: Environment) -> Any:
        """The environment open for a command."""
        stage = Stage(self.cloud.url, self.cloud.ssh_port, self.cloud.pid)
        opening = Opening(environment, stage, self.folder / "state", (self.events.append,), lambda _: None, "test")
        async with open_site(opening) as (site, _):
            yield replace(site, clock=HastyClock())

    def do(self, environment: Environment, command: Callable[[Site], Awaitable[Result]]) -> Result:
        """One command on the environment."""

        async def within() -> Result:
            async with self.site(environment) as site:
                return await command(site)

        return asyncio.run(within())

    def calls(self, after: int = 0, **fields: Any) -> list[dict[str, Any]]:
        """The requests of this project."""
        return [entry for entry in self.cloud.requests(after, **fields) if self._ours(entry)]

    def _ours(self, entry: dict[str, Any]) -> bool:
        return entry["service"] == "storage" or f"/{self.project}" in entry["path"]

    def last(self) -> int:
        """The number of the newest request."""
        return max((entry["n"] for entry in self.cloud.requests()), default=0)


_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def shared_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """One cloud for all: each test has a project, and so names, of its own."""
    served = LocalCloud(tmp_path_factory.mktemp("shared") / "cloud", "--seed", "1", "--no-machines")
    served.start()
    try:
        yield served
    finally:
        served.stop()


@pytest.fixture
def bench(shared_cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A project where nothing stands."""
    monkeypatch.setenv("TPUOPS_OWNER", "ada")
    (tmp_path / "train.py").write_text("print('step=1')\n")
    return Bench(shared_cloud, tmp_path, f"local-t{os.getpid()}-{next(_NUMBERS)}")
