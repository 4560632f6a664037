"""One API call: in a thread, timed, told to whoever listens, its failure turned into one of our errors.

The single place where exceptions of Google's libraries end. It never repeats a call and never judges a text itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from tpuops.clock import Clock
from tpuops.cloud.answers import Answer, no_answer, of_http
from tpuops.cloud.credentials import refusal
from tpuops.cloud.failures import classify
from tpuops.cloud.threads import in_thread
from tpuops.errors import TpuopsError

Result = TypeVar("Result")

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Call:
    """One finished call: HTTP `code` (0 where no answer came), duration in milliseconds."""

    method: str
    resource: str
    code: int
    ms: float


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes calls and reports each to `on_call`."""

    clock: Clock
    on_call: Callable[[Call], None]

    async def ask(self, method: str, resource: str, function: Callable[[], Result]) -> Result:
        """What the call returned. `function` imports, builds and calls; it runs in a thread of its own.

        Raises:
            TpuopsError: of the class that `failures.classify` found.
        """
        started, code = self.clock.monotonic(), 200
        try:
            return await in_thread(function)
        except Exception as error:
            translated = _translated(method, resource, error)
            if translated is None:
                raise
            code, meant = translated
            raise meant from error
        finally:
            self.on_call(Call(method, resource, code, (self.clock.monotonic() - started) * 1000))


def _translated(method: str, resource: str, error: Exception) -> tuple[int, TpuopsError] | None:
    """HTTP code and error for what a client library raised; None for what is no library's answer (a bug of ours)."""
    if isinstance(error, TpuopsError):
        return 0, error
    answer = _answer(error)
    if answer is not None:
        return answer.status, classify(method, resource, answer)
    from google.auth import exceptions as auth  # noqa: PLC0415 - loaded already by whoever raised

    return (401, refusal(error)) if isinstance(error, auth.GoogleAuthError) else None


def _answer(error: Exception) -> Answer | None:
    import requests  # noqa: PLC0415
    from google.api_core import exceptions as api  # noqa: PLC0415
    from google.auth import exceptions as auth  # noqa: PLC0415

    if isinstance(error, api.GoogleAPICallError):
        reply = error.response
        if isinstance(reply, requests.Response):
            return of_http(reply.status_code, reply.content, reply.headers.get("Retry-After", ""))
        return of_http(error.code or 500, str(error.message))
    if isinstance(
        error, api.RetryError | requests.RequestException | auth.TransportError | ConnectionError | TimeoutError
    ):
        return no_answer(f"no answer{_from(error)}: {_reason(error)}")
    return None


def _from(error: BaseException) -> str:
    """Who was asked, as far as it can be told."""
    inner = error.args[0] if error.args else None
    request = getattr(error, "request", None) or getattr(inner, "request", None)
    host = urlsplit(getattr(request, "url", None) or "").hostname
    return f" from {host}" if host else ""


def _reason(error: BaseException) -> str:
    """The system's own words where it refused: the libraries wrap them in theirs, addresses and paths included."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        wrapped = [inner.__cause__, getattr(inner, "reason", None), *inner.args]
        inner = next((each for each in wrapped if isinstance(each, BaseException)), None)
    return str(error)
