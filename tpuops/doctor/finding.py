"""What a check is and what it finds: values, and the short words that make them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tpuops.doctor.patient import Patient
from tpuops.errors import AccessError, CloudError, TpuopsError

TIMEOUT_S = 20.0


class State(StrEnum):
    """How a check ended; `warning` hinders nothing."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
    SKIPPED = "skipped"
    HUNG = "hung"

    @property
    def stops(self) -> bool:
        """Whether a run would not get past it."""
        return self in {State.BROKEN, State.HUNG}


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing that mends a finding, done only when a person agreed.

    `what` completes "shall I ...?". `command` is the same by hand; empty where no one command does it. `needs_person`:
    it takes the terminal, and is only printed where there is none.
    """

    what: str
    run: Callable[[], Awaitable[None]]
    command: str = ""
    needs_person: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's answer. `kind` is its class for scripts, `exit_code` what doctor ends with because of it."""

    state: State
    what: str
    kind: str = ""
    evidence: tuple[str, ...] = ()
    hint: str = ""
    exit_code: int = 0
    fix: Fix | None = None
    check: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """A look with a name, the names of the checks without which it means nothing, and the longest it may take."""

    name: str
    look: Callable[[Patient], Awaitable[Finding]]
    needs: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    applies: Callable[[Patient], bool] = lambda patient: True


def ok(what: str, evidence: Sequence[str] = ()) -> Finding:
    """All is well."""
    return Finding(State.OK, what, evidence=tuple(evidence))


def skipped(what: str) -> Finding:
    """Nothing was looked at, and why."""
    return Finding(State.SKIPPED, what)


def warning(kind: str, what: str, *, evidence: Sequence[str] = (), hint: str = "", fix: Fix | None = None) -> Finding:
    """A run gets past it, and yet somebody should know."""
    return Finding(State.WARNING, what, kind, tuple(evidence), hint, fix=fix)


def broken(
    kind: str, what: str, *, evidence: Sequence[str] = (), hint: str = "", exit_code: int = 3, fix: Fix | None = None
) -> Finding:
    """A run would fail on it."""
    return Finding(State.BROKEN, what, kind, tuple(evidence), hint, exit_code, fix)


def of_error(error: TpuopsError) -> Finding:
    """A broken finding in an error's own words. Its class is the error's reason, else the name of its class."""
    kind = error.kind if isinstance(error, AccessError) and error.kind else _kebab(type(error).__name__)
    if isinstance(error, CloudError) and error.reason and kind == "refused":
        kind = f"refused-{_kebab(error.reason)}"
    return broken(kind, error.message, evidence=error.evidence, hint=error.hint, exit_code=error.exit_code)


def _kebab(name: str) -> str:
    """`NoCapacity` and `NO_CAPACITY` as `no-capacity`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name).lower()
