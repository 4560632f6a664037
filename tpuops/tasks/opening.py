"""From what was typed to an open site: the only place where a command line meets the lifecycle's own words."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tpuops.tasks.task import Invocation, UsageError

if TYPE_CHECKING:  # imported for real only where a task's body runs, so that --list stays fast
    from tpuops.cloud.calls import Call
    from tpuops.environment import Environment
    from tpuops.journal import Listener
    from tpuops.lifecycle.site import Site
    from tpuops.lifecycle.story import Source
    from tpuops.rehearse import Rehearsal


@asynccontextmanager
async def opened(
    asked: Invocation, verb: str, *, alone: bool = True, wait_s: int = 0
) -> AsyncIterator[tuple[Site, Callable[[], Source]]]:
    """The environment that was asked for, open for one command; not `alone` where others are open beside it.

    Whoever holds it is waited for, `wait_s` seconds at most.
    """
    from tpuops import embedded
    from tpuops.errors import AccessError
    from tpuops.lifecycle.opening import Opening, open_site

    if wait_s < 0:
        raise UsageError(f"--wait {wait_s}: seconds, 0 or more")
    environment = chosen(asked)
    stage = await embedded.ensure(embedded.folder()) if environment.cloud == "local" else None
    state = embedded.folder().parent
    opening = Opening(
        environment,
        stage,
        state,
        _listeners(asked),
        _show(asked),
        verb=verb,
        on_call=heard(asked),
        flags=asked.flags,
        alone=alone or asked.cloud == "local",
        wait_s=wait_s,
    )
    try:
        async with open_site(opening) as (site, source):
            yield site, source
    except AccessError as error:
        if environment.is_example:
            error.evidence += (f"{asked.env} is still for the project it was shipped with, {environment.project}",)
            error.hint += f"; and put your own project into {environment.path}, or add --cloud local to try it here"
        raise


def rehearsal(asked: Invocation, faults: Path | None) -> Rehearsal:
    """What `rehearse` was asked to do; its folder is new and its own."""
    from tpuops import embedded
    from tpuops.rehearse import Rehearsal

    folder = embedded.folder().parent / "rehearsals" / secrets.token_hex(4)
    show = _show(asked) if asked.verbose else _silent
    return Rehearsal(chosen(asked), folder, faults, _listeners(asked), show)


def chosen(asked: Invocation) -> Environment:
    """The environment that was asked for, on the cloud that was asked for."""
    from tpuops.environment import find, load

    environment = load(find(asked.env, Path.cwd()))
    return environment.on_embedded_cloud() if asked.cloud == "local" else environment


def _listeners(asked: Invocation) -> tuple[Listener, ...]:
    from tpuops.journal import Event
    from tpuops.report.progress import line

    def hear(event: Event) -> None:
        said = line(event, whole=asked.verbose)
        if said is not None:
            asked.say(said)

    return (hear,)


def _show(asked: Invocation) -> Callable[[bytes], None]:
    from tpuops.report.log import clean

    def show(data: bytes) -> None:
        for each in clean(data).splitlines():
            asked.say(f"  | {each}")

    return show


def _silent(_data: bytes) -> None:
    """A rehearsal's training log is shown with --verbose only."""


def heard(asked: Invocation) -> Callable[[Call], None]:
    """What is done with each API call: with --verbose it is shown."""

    def show(call: Call) -> None:
        if asked.verbose:
            asked.say(f"  api {call.method} {call.resource} {call.code} {call.ms:.0f} ms")

    return show
