"""Tasks that end in every way a task can; run as real processes by test_endings.py."""

import asyncio
import os
import time

from tpuops.errors import CloudError, EnvironmentFileError, StillBilling, TpuopsError
from tpuops.tasks.task import Answer, Invocation, task


@task("env", "cloud", "json", "verbose", help={"dry_run": "change nothing"})
async def echo(asked: Invocation, dry_run: bool = False) -> Answer:
    """Say what was asked."""
    print("a library prints this")
    seen = {"env": asked.env, "cloud": asked.cloud, "verbose": asked.verbose, "dry_run": dry_run}
    return Answer(seen, f"{seen}")


@task("json")
async def wrong_file(asked: Invocation) -> Answer:
    """End with a known error."""
    raise EnvironmentFileError("v3-8.yaml has 1 problem", evidence=["v3-8.yaml:3: zone: unknown"], hint="edit line 3")


@task("json")
async def failed_run(asked: Invocation) -> Answer:
    """End with a document and an error."""
    return Answer(
        {"outcome": "failed", "attempts": 3}, "failed", error=StillBilling("node n is left", hint="delete it")
    )


@task("json")
async def bug(asked: Invocation) -> Answer:
    """End with a bug."""
    return Answer({"never": 1 // int(os.environ.get("ZERO", "0"))})


@task("json")
async def several(asked: Invocation) -> Answer:
    """End with two errors of parallel work."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_fail(CloudError("the VM failed")))
        group.create_task(_fail(StillBilling("the node is left")))
    return Answer()


@task()
def full_disk(asked: Invocation) -> Answer:
    """End as the machine's fault."""
    raise OSError(28, "No space left on device", "/var/x")


@task("json")
async def wait(asked: Invocation) -> Answer:
    """Wait until stopped, then clean up."""
    try:
        asked.say("waiting")
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)
        asked.say("cleaned up")
    return Answer()


@task()
async def linger(asked: Invocation) -> Answer:
    """Clean up for ever."""
    try:
        asked.say("waiting")
        await asyncio.sleep(60)
    finally:
        asked.say("cleaning up")
        await asyncio.sleep(60)
    return Answer()


@task()
async def acknowledged(asked: Invocation) -> Answer:
    """End well, and take a while to note that this was shown."""

    async def noted() -> None:
        asked.say("waiting")
        await asyncio.sleep(1)

    return Answer(text="done", shown=noted)


@task()
async def leak(asked: Invocation) -> Answer:
    """Fail to clean up when stopped."""
    try:
        asked.say("waiting")
        await asyncio.sleep(60)
    finally:
        raise StillBilling("node n is left")


@task()
async def blocked(asked: Invocation) -> Answer:
    """Hold the loop, as a slow import does, then wait."""
    asked.say("waiting")
    time.sleep(0.5)
    asked.say("imported")
    await asyncio.sleep(60)
    return Answer()


@task()
def wait_without_loop(asked: Invocation) -> Answer:
    """Wait in a plain function."""
    try:
        asked.say("waiting")
        time.sleep(60)
    finally:
        asked.say("cleaned up")
    return Answer()


@task()
def stream(asked: Invocation) -> Answer:
    """Write data for ever."""
    while True:
        asked.write("line\n")


@task()
def chatter(asked: Invocation) -> Answer:
    """Report progress to somebody who left, and finish all the same."""
    for _ in range(5):
        asked.say("progress")
        time.sleep(0.05)
    return Answer(text="finished")


async def _fail(error: TpuopsError) -> None:
    raise error
