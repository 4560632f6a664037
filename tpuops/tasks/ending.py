"""From the start of a task's body to the exit code of its process.

One way out for every task: an answer, a `TpuopsError`, a signal, a reader that went away, or a bug. A signal cancels
the body once, so that its own cleanups run; only a second Ctrl-C ends the process at once. What a task does is
decided elsewhere; nothing here knows a cloud.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Never

from tpuops import __version__
from tpuops.errors import AccessError, StillBilling, TpuopsError
from tpuops.report.console import Console, ReaderGone, failure_document, next_steps

EXIT_BUG, EXIT_INTERRUPTED, EXIT_TERMINATED = 1, 130, 143

LOCAL_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE})
"""What this machine may refuse without anybody's bug: a full or read-only disk, a foreign file, no descriptor left."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task found or did.

    Args:
        document: what `--json` prints.
        text: what stdout shows otherwise.
        following: commands to type next, each with what it does; shown last, on stderr.
        shown: awaited once all of it is said; it says nothing itself, and raises no `TpuopsError`.
        then: what this process becomes once all of it is said and closed; never where a signal came.
        error: shown on stderr (inside the document with `--json`); its exit code becomes the task's.
        exit_code: the task's exit code where `error` is None.
    """

    document: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    text: str = ""
    following: Sequence[tuple[str, str]] = ()
    shown: Callable[[], Coroutine[Any, Any, None]] | None = None
    then: Callable[[], Never] | None = None
    error: TpuopsError | None = None
    exit_code: int = 0


Body = Callable[[], Answer | Coroutine[Any, Any, Answer | None] | None]


class Stop:
    """A request from outside to end: which signal came first, and what it interrupts."""

    def __init__(self) -> None:
        self.exit_code = 0
        self._cancel: Callable[[], object] | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Answer SIGINT, SIGTERM and (unless it is ignored, as under nohup) SIGHUP until the block ends."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._arrived) for number in numbers}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous or signal.SIG_DFL)

    async def around(self, work: Coroutine[Any, Any, Answer | None]) -> Answer | None:
        """Await `work`; a signal cancels it, also while a blocking import keeps the loop from running."""
        task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self.exit_code:
            task.cancel()
        try:
            return await task
        finally:
            self._cancel = lambda: None  # nothing is left to interrupt, and the loop closes

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        if self.exit_code:
            if number == signal.SIGINT:
                os.write(2, b"\nended at once, before cleaning up: look with `tpuops status`\n")
                os._exit(EXIT_INTERRUPTED)
            return
        self.exit_code = EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_TERMINATED
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()


def conclude(body: Body, console: Console, *, as_json: bool) -> int:
    """Run `body`, say how it ended and return the exit code. Never raises for anything the body did."""
    stop = Stop()
    with stop.listening():
        try:
            with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
                answer = _carry_out(body, stop) or Answer()
        except ReaderGone:
            return stop.exit_code
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            answer = Answer(error=_interruption(stop) or _bug(error, console))
        except Exception as error:  # noqa: BLE001 - the top of every task: the one place that may see everything
            answer = Answer(error=blame(error) or _bug(error, console))
        exit_code = _exit_code(answer, stop)
        with contextlib.suppress(ReaderGone):
            _show(answer, exit_code, console, as_json=as_json)
            if answer.shown is not None:
                asyncio.run(answer.shown())
    if answer.then is not None and not exit_code:
        answer.then()
    return exit_code


def blame(error: BaseException) -> TpuopsError | None:
    """The error to show for `error`, or None where only a bug explains it.

    Of several errors that ended parallel work the gravest is shown, with a line for each of the others.
    """
    if isinstance(error, TpuopsError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return _gravest([blame(each) for each in error.exceptions])
    if isinstance(error, OSError) and error.errno in LOCAL_FAULTS:
        where = f": {error.filename}" if error.filename else ""
        return AccessError(f"{error.strerror}{where}", hint="make room or mend the permissions on this machine")
    return None


def _gravest(blamed: list[TpuopsError | None]) -> TpuopsError | None:
    known = [error for error in blamed if error is not None]
    if len(known) < len(blamed):
        return None
    first = next((error for error in known if isinstance(error, StillBilling)), known[0])
    first.evidence += tuple(f"also: {error.message}" for error in known if error is not first)
    return first


def _carry_out(body: Body, stop: Stop) -> Answer | None:
    begun = body()
    if inspect.iscoroutine(begun):
        return asyncio.run(stop.around(begun))
    assert begun is None or isinstance(begun, Answer), "a task's body returns an Answer or None"
    return begun


class _Ended(TpuopsError):
    """A signal ended it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class _Bug(TpuopsError):
    """A bug in tpuops; the traceback is on stderr."""

    exit_code = EXIT_BUG


def _interruption(stop: Stop) -> TpuopsError | None:
    if not stop.exit_code:
        return None
    return _Ended("interrupted" if stop.exit_code == EXIT_INTERRUPTED else "terminated", stop.exit_code)


def _bug(error: BaseException, console: Console) -> TpuopsError:
    console.say("".join(traceback.format_exception(error)).rstrip())
    last = traceback.format_exception_only(error)[-1].strip()
    return _Bug(f"this is a bug in tpuops {__version__}", evidence=[last], hint="report it with the lines above")


def _exit_code(answer: Answer, stop: Stop) -> int:
    """What may still bill outranks the signal, the signal everything else."""
    own = answer.error.exit_code if answer.error else answer.exit_code
    return own if own == StillBilling.exit_code else stop.exit_code or own


def _show(answer: Answer, exit_code: int, console: Console, *, as_json: bool) -> None:
    if answer.error is not None:
        console.show_failure(answer.error)
    if as_json:
        failed = failure_document(answer.error, exit_code) if answer.error else {}
        plain = answer.document
        console.write_document({**plain, **failed} if isinstance(plain, Mapping) else failed or plain)
        return
    if answer.text:
        console.write(answer.text.rstrip("\n") + "\n")
    if answer.following and answer.error is None:
        console.say(next_steps(answer.following))
