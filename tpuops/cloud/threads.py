"""Google's synchronous clients in worker threads that nobody has to wait for.

The standard pool joins its threads when the process ends, so that Ctrl-C during an operation's two-minute wait would
seem to hang. These are daemon threads, one a call; a cancelled call is left behind and its result dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

IMPORTING = threading.RLock()
"""Held while a client is imported and built. Google's packages import each other in circles: two threads at it at once
could see half a module. Calls that are already in flight go on meanwhile."""


async def in_thread(function: Callable[[], Result]) -> Result:
    """What `function` returns or raises, from a daemon thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:  # noqa: BLE001 - handed over as it is, to be raised where it is awaited
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name="tpuops-cloud", daemon=True).start()
    return await future
