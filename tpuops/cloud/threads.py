"""Google's synchronous clients in worker threads that nobody has to wait for.

The standard pool joins its threads when the process ends, so that Ctrl-C during an operation's two-minute wait would
seem to hang. These are daemon threads, one a call; a cancelled call is left behind and its result dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Turns:
    """One at a time imports and builds a client, and whoever is heavy goes last.

    Google's packages import each other in circles: two threads at it at once could see half a module. Calls already in
    flight go on meanwhile, so the longest import comes when the others' calls are on their way.
    """

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._holder: int | None = None
        self._light = 0

    @contextmanager
    def taken(self, *, heavy: bool) -> Iterator[None]:
        """Hold the turn; whoever has it may take it again."""
        me = threading.get_ident()
        if self._holder == me:
            yield
            return
        with self._free:
            self._light += not heavy
            self._free.wait_for(lambda: self._holder is None and not (heavy and self._light))
            self._light -= not heavy
            self._holder = me
        try:
            yield
        finally:
            with self._free:
                self._holder = None
                self._free.notify_all()


class Once(Generic[Result]):
    """A value built at its first use, by one thread, in its turn. A failed build is tried again at the next use."""

    turns = Turns()

    def __init__(self, build: Callable[[], Result], *, heavy: bool = False) -> None:
        self._build, self._heavy = build, heavy
        self._built: list[Result] = []

    def __call__(self) -> Result:
        """The value."""
        if not self._built:
            with self.turns.taken(heavy=self._heavy):
                if not self._built:
                    self._built.append(self._build())
        return self._built[0]


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
