"""Looking at what stands and what it does: once or again and again, one environment or all of them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tpuops.tasks.task import Answer, Invocation, UsageError, task, unnamed

if TYPE_CHECKING:
    from tpuops.errors import TpuopsError
    from tpuops.lifecycle.site import Site

WATCH_S = 2.0


@task(
    "env",
    "cloud",
    "json",
    "verbose",
    env_default="",
    help={"watch": "look again and again, until Ctrl-C", "all": "every environment that can be named here"},
)
async def status(asked: Invocation, watch: bool = False, all: bool = False) -> Answer:
    """Show what stands, what the run is doing and who supervises it; changes nothing."""
    if watch and asked.json:
        raise UsageError("--json prints one document, and --watch has no end", hint="leave one out")
    if not (all or asked.env):
        raise unnamed()
    async with AsyncExitStack() as stack:
        if all:
            return await _all(asked, stack, watch=watch)
        return await _one(asked, stack, watch=watch)


async def _one(asked: Invocation, stack: AsyncExitStack, *, watch: bool) -> Answer:
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.down import status as look
    from tpuops.report import following, standing
    from tpuops.tasks.opening import opened

    site, _ = await stack.enter_async_context(opened(asked, "status"))

    async def view() -> dict[str, Any]:
        return documents.standing(await look(site), site)

    document = await view()
    if watch:
        steps = lambda last: following.after_status(last, asked.typed)  # noqa: E731 - one of two, beside each other
        await _watched(asked, document, view, (standing.standing, standing.brief), steps)
    return Answer(document, standing.standing(document), following.after_status(document, asked.typed))


async def _all(asked: Invocation, stack: AsyncExitStack, *, watch: bool) -> Answer:
    from tpuops.lifecycle.others import others
    from tpuops.report import following, standing

    sites, wrong = await _sites(asked, stack)

    async def view() -> list[dict[str, Any]]:
        import asyncio

        rows = await asyncio.gather(*(_row(name, site) for name, site in sites.items()))
        return sorted([*wrong, *rows], key=lambda row: str(row["environment"]))

    rows = await view()
    if watch:
        shown = (standing.every, lambda found: "\n".join(standing.brief(row) for row in found))
        await _watched(asked, rows, view, shown, lambda _: following.after_status_all(asked.cloud))
    failed = [row["exit_code"] for row in rows if "error" in row]
    steps = following.after_status_all(asked.cloud)
    theirs, unseen = await others(sites.values())
    document = {"environments": rows, "others": theirs, "others_unseen": unseen}
    text = "\n".join([standing.every(rows), *standing.others(theirs, unseen)])
    return Answer(document, text, steps, exit_code=max(failed, default=0))


async def _sites(asked: Invocation, stack: AsyncExitStack) -> tuple[dict[str, Site], list[dict[str, Any]]]:
    """Every environment by name, opened; and a row for each whose file is wrong, or still as it was shipped."""
    from pathlib import Path

    from tpuops.environment import available
    from tpuops.errors import TpuopsError
    from tpuops.tasks.opening import chosen, opened

    sites: dict[str, Site] = {}
    wrong = []
    for name in available(Path.cwd()):
        try:
            if chosen(replace(asked, env=name)).is_example:
                wrong.append({"environment": name, "not_set_up": "its project is still the shipped one"})
                continue
            opening = opened(replace(asked, env=name), "status", alone=False)
            sites[name] = (await stack.enter_async_context(opening))[0]
        except TpuopsError as error:
            wrong.append(_failed(name, error))
    return sites, wrong


async def _row(name: str, site: Site) -> dict[str, Any]:
    from tpuops.errors import TpuopsError
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.down import status as look

    try:
        return documents.standing(await look(site), site)
    except TpuopsError as error:
        return _failed(name, error)


def _failed(name: str, error: TpuopsError) -> dict[str, Any]:
    from tpuops.report.console import failure_document

    return {"environment": name, **failure_document(error, error.exit_code)}


async def _watched(asked: Invocation, document: Any, view: Any, shown: tuple[Any, Any], back: Any) -> None:
    """Show it until somebody interrupts; `back` says by the last view what to type then."""
    from tpuops.clock import SystemClock
    from tpuops.report import away
    from tpuops.report.watching import Screen
    from tpuops.tasks.leaving import leaving

    clock, screen = SystemClock(), Screen(asked.write, redraws=asked.console.shows_data)
    with leaving(asked, away.watching, lambda: back(document)):
        while True:
            screen.show(shown[0](document), shown[1](document), clock.now())
            await clock.sleep(WATCH_S)
            document = await view()
