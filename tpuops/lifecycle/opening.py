"""Opening a site: the one place where the real cloud, SSH, clock, key and journal are put together."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tpuops.clock import SystemClock
from tpuops.cloud import endpoints
from tpuops.cloud.calls import Call
from tpuops.cloud.client import GoogleCloud
from tpuops.cloud.confinement import confine
from tpuops.desired import desired
from tpuops.embedded import Stage
from tpuops.environment import Environment, owner_of
from tpuops.environment.owner import VARIABLE
from tpuops.journal import Journal, Listener
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Source
from tpuops.remote import sync
from tpuops.remote.keys import own_key
from tpuops.remote.ssh import SshConnector
from tpuops.stages.access import Route
from tpuops.stages.spend import Meter, hourly
from tpuops.stages.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Opening:
    """What a command opens: the environment, the embedded cloud's stage (None: Google), its folder for key and spool,
    who listens to events, log bytes and API calls.

    `flags` is how the environment was named on the command line. `alone` is False where this process looks at others
    too, which may be on Google: then the embedded cloud's is not the only place it may connect to.
    """

    environment: Environment
    stage: Stage | None
    state: Path
    listeners: tuple[Listener, ...]
    show: Callable[[bytes], None]
    verb: str
    on_call: Callable[[Call], None] = lambda call: None
    flags: str = ""
    alone: bool = True


@asynccontextmanager
async def open_site(opening: Opening) -> AsyncIterator[tuple[Site, Callable[[], Source]]]:
    """The site, and a function that digests the source tree when a run needs it."""
    environment, clock = opening.environment, SystemClock()
    place = endpoints.google() if opening.stage is None else endpoints.at(opening.stage.url, opening.stage.ssh_port)
    if opening.alone:
        confine(place)
    folder = opening.state / environment.project / environment.slug
    key = own_key(folder)
    wanted = desired(environment, owner=owner_of(environment), public_key=key.public_line, now=clock.now())
    meter = Meter(hourly(wanted), clock)
    spool = folder / "journal" / f"{clock.now():%Y%m%d-%H%M%S}-{opening.verb}.jsonl"
    cloud = GoogleCloud(place, clock, opening.on_call)
    site = Site(
        environment=environment,
        desired=wanted,
        cloud=cloud,
        store=cloud.store(wanted.bucket.name),
        connector=SshConnector(key.path, clock),
        route=Route(environment.ssh.user, place.ssh_port),
        clock=clock,
        journal=Journal(clock, spool, (meter.hear, *opening.listeners)),
        meter=meter,
        user=os.environ.get(VARIABLE) or getpass.getuser(),
        show=opening.show,
        folder=folder,
        flags=opening.flags,
    )
        secrets=Secrets(environment, cloud.vault()),
    yield site, lambda: Source(environment.source_folder, sync.digest(environment.source_folder))
