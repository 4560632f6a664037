"""fetch: bring what a run saved home into a folder, each file verified by md5. What is there is never written over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from tpuops.cloud.port import ObjectStat
from tpuops.errors import CloudError, TpuopsError
from tpuops.lifecycle.logs import recorded
from tpuops.lifecycle.site import Site
from tpuops.remote.home import Home, Unsafe
from tpuops.stages import run as runs
from tpuops.stages.record import RUNNING

AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Fetched:
    """Names below `folder`: brought now, there already with the same content, and not brought with the reason why."""

    run_id: str
    folder: Path
    brought: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    size: int = 0
    open_run: bool = False


async def fetch(site: Site, run_id: str, folder: Path | None) -> Fetched:
    """Outputs and logs of the run on record, or of `run_id`, into `folder` (by default one named as the run).

    Raises:
        TpuopsError: nothing of that run is saved.
    """
    record = await recorded(site)
    run_id = run_id or record.run_id
    lives = record.state == RUNNING and record.run_id == run_id
    prefix = f"{runs.prefix(run_id)}saved/"
    stats = [stat for stat in await site.store.list(prefix) if not stat.name.endswith("/")] if _plain(run_id) else []
    if not stats:
        tip = f"{site.typed('stop')} ends the run and saves them" if lives else "was the run id typed right?"
        raise TpuopsError(f"nothing of run {run_id} is saved in gs://{site.desired.bucket.name}", hint=tip)
    goal = folder or Path.cwd() / run_id
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(home: Home, stat: ObjectStat) -> str:
        async with limit:
            return await _one(site, home, stat, stat.name.removeprefix(prefix))

    try:
        home = Home(goal)
    except OSError as error:
        raise TpuopsError(f"cannot bring files to {goal}: {error.strerror}", hint="name a folder with --to") from error
    with home:
        ends = await asyncio.gather(*(one(home, stat) for stat in stats))
    named = [(stat.name.removeprefix(prefix), end) for stat, end in zip(stats, ends, strict=True)]
    return Fetched(
        run_id,
        goal,
        tuple(name for name, end in named if end == "brought"),
        tuple(name for name, end in named if end == "equal"),
        {name: end for name, end in named if end not in {"brought", "equal"}},
        sum(stat.size for stat, end in zip(stats, ends, strict=True) if end == "brought"),
        lives,
    )


async def _one(site: Site, home: Home, stat: ObjectStat, name: str) -> str:
    """`brought`, `equal`, or why it was not brought."""
    try:
        there = await asyncio.to_thread(home.md5, name)
        if there is not None:
            return "equal" if there == stat.md5 else "another file of that name is there, and was kept"
        with home.new(name, stat.md5) as file:
            await site.store.download(stat, file)
    except FileExistsError:
        return "another file of that name is there, and was kept"
    except Unsafe as error:
        return str(error)
    except (ValueError, OSError, CloudError) as error:
        return getattr(error, "message", "") or str(error)
    return "brought"


def _plain(run_id: str) -> bool:
    return bool(run_id) and "/" not in run_id and run_id not in {".", ".."}
