"""Who is examined: an environment with the ports through which checks look at it. Looking makes nothing.

A patient is admitted anew for every look, so that no answer of an earlier one, nor an old login, is believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tpuops.clock import Clock, SystemClock
from tpuops.cloud import endpoints
from tpuops.cloud.calls import Call, Caller
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.confinement import confine
from tpuops.cloud.credentials import credentials
from tpuops.cloud.endpoints import Endpoints
from tpuops.cloud.rest import Rest
from tpuops.cloud.threads import Once
from tpuops.desired import desired
from tpuops.embedded import Stage
from tpuops.environment import Environment, owner_of
from tpuops.resources import Desired

Result = TypeVar("Result")

NO_KEY = "ssh-ed25519 none"
"""Stands for the environment's key, which a look must not make."""


class Shared:
    """What several checks want to know, asked once."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[Any]] = {}

    async def once(self, name: str, ask: Callable[[], Awaitable[Result]]) -> Result:
        """What `ask` returned or raised when it was first asked under this name.

        It goes on when one of those who wait for it is cut off.
        """
        if name not in self._asked:
            self._asked[name] = asyncio.ensure_future(ask())
        found: Result = await asyncio.shield(self._asked[name])
        return found


@dataclass(frozen=True, slots=True)
class Patient:
    """An environment under examination.

    `place` says where the APIs are and which port machines' sshd has; `rest`, in a thread of `caller`'s, asks what
    `cloud` has no word for. `folder` is the environment's state folder on this machine, which may be missing. `desired`
    names the resources; its machines' key is a placeholder, since nothing is made of it. `flags` is how the environment
    was named on the command line; `terminal`: a person sits there;
    `stage` is the embedded cloud, None at Google.
    """

    environment: Environment
    place: Endpoints
    cloud: GoogleCloud
    desired: Desired
    clock: Clock
    folder: Path
    flags: str
    caller: Caller
    rest: Rest
    terminal: bool = False
    stage: Stage | None = None
    shared: Shared = field(default_factory=Shared)

    @property
    def project(self) -> str:
        """The environment's project."""
        return self.environment.project

    async def number(self) -> str:
        """The project's number, asked of Compute Engine once a look."""
        return await self.shared.once("number", lambda: self.cloud.project_number(self.project))

    async def accelerator_types(self) -> frozenset[str]:
        """What the TPU service has in the zone, asked once a look."""
        place = self.desired.node.place
        return await self.shared.once("accelerator types", lambda: self.cloud.accelerator_types(place))

    def typed(self, verb: str, *more: str) -> str:
        """A command on this very environment, as it is typed."""
        return " ".join(("tpuops", verb, self.flags, *more))


@dataclass(frozen=True, slots=True)
class Admission:
    """How to admit a patient: as a command opens an environment. `stage` None means Google."""

    environment: Environment
    stage: Stage | None
    state: Path
    flags: str
    terminal: bool = False
    on_call: Callable[[Call], None] = lambda call: None

    def admit(self) -> Patient:
        """The patient, with ports of its own."""
        environment, clock = self.environment, SystemClock()
        place = endpoints.google() if self.stage is None else endpoints.at(self.stage.url, self.stage.ssh_port)
        confine(place)
        return Patient(
            environment=environment,
            place=place,
            cloud=GoogleCloud(place, clock, self.on_call),
            desired=desired(environment, owner=owner_of(environment), public_key=NO_KEY, now=clock.now()),
            clock=clock,
            folder=self.state / environment.project / environment.slug,
            flags=self.flags,
            caller=Caller(clock, self.on_call),
            rest=Rest(place, Once(lambda: credentials(place))),
            terminal=self.terminal,
            stage=self.stage,
        )
