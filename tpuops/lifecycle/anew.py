"""train and run with a changed source while the run lives: stop it first, if a person says so, then begin anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tpuops.lifecycle.consent import Agree
from tpuops.lifecycle.finish import Report
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.stop import GRACE_S, anothers, stopped
from tpuops.stages.record import Records
from tpuops.stages.run import SourceChanged


async def stopping_other_source(site: Site, agree: Agree, act: Callable[[], Awaitable[Report]]) -> Report:
    """Do it; where another source's run is in the way, ask, end that run with its outputs saved, and do it again.

    Raises:
        Busy: nobody agreed; nothing was touched.
    """
    try:
        return await act()
    except SourceChanged as error:
        changed = error
    record = await Records(site.store, f"{site.prefix}run.json").read()
    whose = "" if record is None else anothers(site, record)
    by = f" (begun by {whose})" if whose else ""
    await agree(f"{changed.message}{by}: stop it, save its outputs and start anew?", whose)
    if record is not None:
        await stopped(site, record, GRACE_S)
    return await act()
