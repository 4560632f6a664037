"""Opening a site: the one place where the real cloud, SSH, clock, key and journal are put together."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
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
from tpuops.stages import entry, hostkeys
from tpuops.stages.access import Route
from tpuops.stages.secrets import Secrets
from tpuops.stages.spend import Meter, hourly

MUCH_BYTES = 100 << 20
"""A source of this size is told of even where each of its files is small."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a command opens: the environment, the embedded cloud's stage (None: Google), its folder for key and spool,
    who listens to events, log bytes and API calls.

    `flags` is how the environment was named on the command line, `wait_s` for how long somebody else's lease is waited
    for. `alone` is False where this process looks at others
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
    wait_s: float = 0.0


@asynccontextmanager
async def open_site(opening: Opening) -> AsyncIterator[tuple[Site, Callable[[], Source]]]:
    """The site, and a function that digests the source tree when a run needs it."""
    environment, clock = opening.environment, SystemClock()
    place = endpoints.google() if opening.stage is None else endpoints.at(opening.stage.url, opening.stage.ssh_port)
    if opening.alone:
        confine(place)
    folder = _folder(opening)
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
        route=_route(opening, key.public_line, cloud, place.ssh_port, wanted.bucket.name),
        clock=clock,
        journal=Journal(clock, spool, (meter.hear, *opening.listeners)),
        meter=meter,
        secrets=Secrets(environment, cloud.vault()),
        user=os.environ.get(VARIABLE) or getpass.getuser(),
        show=opening.show,
        folder=folder,
        flags=opening.flags,
        wait_s=opening.wait_s,
    )
    yield site, cache(lambda: _source(environment.source_folder, site.journal))


def _folder(opening: Opening) -> Path:
    """The environment's own state folder on this machine."""
    return opening.state / opening.environment.project / opening.environment.slug


def _route(opening: Opening, key: str, cloud: GoogleCloud, port: int, bucket: str) -> Route:
    environment = opening.environment
    carrier = entry.tunnel(environment, opening.stage, _folder(opening) / "ssh")
    found = entry.route(environment, key, port, cloud.logins(), SystemClock())
    found = replace(found, told=hostkeys.told_in(cloud.store(bucket), environment.slug))
    return found if carrier is None else replace(found, proxy=carrier.argv)


def _source(folder: Path, journal: Journal) -> Source:
    """Look at the source tree; what is large in it is told before anything is made for it."""
    found = sync.survey(folder)
    if found.large or found.size >= MUCH_BYTES:
        large = [{"path": entry.path, "bytes": entry.size} for entry in found.large]
        journal.record("source.large", files=found.files, bytes=found.size, large=large)
    return Source(folder, found.digest, sync.revision(folder))
