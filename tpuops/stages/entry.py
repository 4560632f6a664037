"""Entry: how machines are entered, put together from an environment's file: the user, the key, and what carries us."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tpuops import redirect
from tpuops.clock import Clock
from tpuops.cloud.port import Logins
from tpuops.desired import KEY_MARGIN, key_end
from tpuops.embedded import Stage
from tpuops.environment import Environment
from tpuops.facts.entries import public_of
from tpuops.remote.tunnel import Tunnel, elsewhere
from tpuops.stages.access import Route


def route(environment: Environment, key: str, port: int, logins: Logins, clock: Clock) -> Route:
    """The route without what carries it. `key` is our public line."""
    ssh, public = environment.ssh, public_of(key)
    plain = Route(ssh.user, port, public, ssh.reach)
    if ssh.login == "metadata":
        return plain
    return replace(plain, login=_login(environment, public, logins, clock), leave=lambda: logins.forget_login(public))


def _login(environment: Environment, public: str, logins: Logins, clock: Clock) -> Callable[[], Awaitable[str]]:
    """Have OS Login know our key for as long as a run may take; asked again only when that comes to its end."""
    known: list[tuple[str, datetime]] = []

    async def name() -> str:
        now = clock.now()
        if not known or known[-1][1] < now:
            end = key_end(environment, now)
            user = await logins.login_as(environment.project, public, end - KEY_MARGIN, end)
            known.append((user, now + KEY_MARGIN / 2))
        return known[-1][0]

    return name


def tunnel(environment: Environment, stage: Stage | None, folder: Path) -> Tunnel | None:
    """gcloud's tunnel where the file asks for it; on the embedded cloud with the files that keep gcloud there."""
    if environment.ssh.reach != "iap":
        return None
    if stage is None:
        return Tunnel()
    return elsewhere(folder, _exports(environment, stage, folder), stage.tunnel)


def gcloud(environment: Environment, stage: Stage | None, folder: Path) -> tuple[str, ...]:
    """What stands before `gcloud` in an argv so that it goes where the environment is."""
    return () if stage is None else elsewhere(folder, _exports(environment, stage, folder), stage.tunnel).before


def _exports(environment: Environment, stage: Stage, folder: Path) -> str:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    redirect.write_token(stage.url, folder)
    believed = f"export CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE={shlex.quote(stage.certificate)}\n"
    return redirect.exports(stage.url, folder, environment.project) + believed
