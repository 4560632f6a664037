"""The lease of an environment: who holds it, and how to take it from a holder that hangs."""

from __future__ import annotations

from tpuops.tasks.asking import YES, agreeing
from tpuops.tasks.task import Answer, Invocation, task


@task("env", "cloud", "json", "verbose")
async def show(asked: Invocation) -> Answer:
    """Show who holds the lease, since when and for what; changes nothing."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.lock import show as look
    from tpuops.report import lock as said
    from tpuops.tasks.opening import opened

    async with opened(asked, "lock.show") as (site, _):
        document = documents.lock(await look(site), site)
    steps = [(asked.typed("status"), "shows what stands")]
    if document["lease"]:
        steps.append((asked.typed("lock.break"), "takes it from a holder that hangs"))
    return Answer(document, said.shown(document), steps)


@task("env", "cloud", "json", "verbose", name="break", help={"yes": YES})
async def break_(asked: Invocation, yes: bool = False) -> Answer:
    """Take the lease from its holder, wait until the holder must have stopped, and leave it free."""
    from tpuops.lifecycle import documents
    from tpuops.lifecycle.lock import break_lock
    from tpuops.report import lock as said
    from tpuops.tasks.opening import opened

    async with opened(asked, "lock.break") as (site, _):
        document = documents.lock(await break_lock(site, agreeing(asked, yes=yes)), site)
    return Answer(document, said.broken(document), [(asked.typed("status"), "shows what stands")])
