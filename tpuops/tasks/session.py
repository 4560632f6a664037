"""Looking in on a run: logs, attach, ssh; ending it: stop; bringing its results home: fetch."""

from __future__ import annotations

from tpuops.tasks.asking import YES, agreeing
from tpuops.tasks.task import Answer, Invocation, UsageError, task


@task(
    "env",
    "cloud",
    "json",
    "verbose",
    help={
        "follow": "go on as it grows, over recoveries too",
        "attempt": "the attempt's number (default: the newest)",
        "saved": "the copy in the bucket, whatever stands",
        "run": "a run id (default: the run on record); its saved logs",
    },
)
async def logs(asked: Invocation, follow: bool = False, attempt: int = 0, saved: bool = False, run: str = "") -> Answer:
    """Show the training's log, from its machine or, where none stands, from the bucket."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.logs import Reader, Wanted
    from tpuops.lifecycle.logs import logs as read
    from tpuops.report import away, following, session
    from tpuops.report.log import clean
    from tpuops.tasks.leaving import leaving
    from tpuops.tasks.opening import opened

    if follow and asked.json:
        raise UsageError("--json prints one document at the end, and --follow may have none", hint="leave one out")
    kept = bytearray()
    show = kept.extend if asked.json else lambda data: asked.write(clean(data))
    async with opened(asked, "logs") as (site, _):
        reader = Reader(site, show, asked.say)
        with leaving(asked, lambda: session.left_log(reader.run_id, reader.attempt), lambda: away.logs(asked.typed)):
            told = await read(reader, Wanted(attempt, follow, saved, run))
    document = documents.told(told)
    if asked.json:
        return Answer({**document, "log": bytes(kept).decode(errors="replace")})
    asked.say(session.ended(document))
    return Answer(following=following.after_logs(document, asked.typed))


@task("env", "cloud", "verbose")
async def attach(asked: Invocation) -> Answer:
    """Join the training's tmux session; leave it with Ctrl-b d."""
    from tpuops.lifecycle.shell import attach as door
    from tpuops.remote.openssh import become
    from tpuops.tasks.opening import opened

    async with opened(asked, "attach") as (site, _):
        found = await door(site)
    asked.say(
        f"attaching to {found.host.name}; Ctrl-b d leaves it, and the training goes on; Ctrl-C there interrupts it"
    )
    asked.say(f"`{asked.typed('attach')}` comes back")
    return Answer(then=lambda: become(found.argv))


@task(
    "env",
    "cloud",
    "verbose",
    help={
        "worker": "which of the TPU's workers",
        "vm": "the VM beside the TPU instead",
        "command": "a line for the shell there; its exit code becomes this command's",
    },
)
async def ssh(asked: Invocation, worker: int = 0, vm: bool = False, command: str = "") -> Answer:
    """Open a shell on the TPU's worker, or on the VM, with OpenSSH."""
    from tpuops.lifecycle.shell import shell
    from tpuops.remote.openssh import become
    from tpuops.tasks.opening import opened

    async with opened(asked, "ssh") as (site, _):
        found = await shell(site, worker=worker, vm=vm, command=command)
    return Answer(then=lambda: become(found.argv))


@task(
    "env",
    "cloud",
    "json",
    "verbose",
    help={"yes": YES, "grace": "seconds between SIGTERM and the end by force (default: 30)"},
)
async def stop(asked: Invocation, yes: bool = False, grace: int = 30) -> Answer:
    """End the run gracefully and for good: its outputs are saved, its machines stay."""
    from tpuops.errors import StillBilling
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.stop import stop as end
    from tpuops.report import away, following, session
    from tpuops.tasks.leaving import leaving
    from tpuops.tasks.opening import opened

    if grace < 0:
        raise UsageError(f"--grace {grace}: seconds, 0 or more")
    async with opened(asked, "stop") as (site, _):
        with leaving(asked, away.stopping, lambda: away.stop(asked.typed)):
            document = documents.stopped(await end(site, agreeing(asked, yes=yes), float(grace)))
    left = [f"{thing['kind']} {thing['name']}: {thing['why']}" for thing in document["remains"]]
    error = StillBilling("the run ended, and its outputs are not saved", evidence=left) if left else None
    steps = following.after_stop(document, asked.typed)
    return Answer(document, session.stopped(document), steps, error=error)


@task(
    "env",
    "cloud",
    "json",
    "verbose",
    help={"run": "a run id (default: the run on record)", "to": "the folder (default: one named as the run, here)"},
)
async def fetch(asked: Invocation, run: str = "", to: str = "") -> Answer:
    """Bring a run's outputs and logs home, each verified; a file that is there is kept."""
    from pathlib import Path

    from tpuops.errors import TpuopsError
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.fetch import fetch as bring
    from tpuops.report import away, following, session
    from tpuops.tasks.leaving import leaving
    from tpuops.tasks.opening import opened

    async with opened(asked, "fetch") as (site, _):
        with leaving(asked, away.fetching, lambda: away.fetch(asked.typed)):
            document = documents.fetched(await bring(site, run, Path(to).expanduser() if to else None))
    count = len(document["refused"])
    error = TpuopsError(f"{count} file(s) were not brought", hint="--to names another folder") if count else None
    return Answer(document, session.fetched(document), following.after_fetch(document, asked.typed), error=error)
