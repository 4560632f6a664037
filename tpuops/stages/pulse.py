"""Pulse: what an attempt's log tells of whether its program gets on, and what it seems to be doing.

Times are monotonic seconds of whoever listens. Listening that begins anew (a connection, a controller) counts from
nothing: what was not heard meanwhile is no silence of the program.
"""

from __future__ import annotations

from dataclasses import dataclass

import re2

from tpuops.diagnosis.stall import CHECKPOINT, COMPILE, RESTORE, START, TRAIN, Signs

_SAVES = re2.compile(rb"(?i)\bcheckpoint|\b(?:sav|evaluat|validat|export)(?:e|es|ed|ing|ion)\b")
_RESTORES = re2.compile(rb"(?i)\b(?:restor|resum)(?:e|es|ed|ing)\b|\bload(?:s|ed|ing)?\b.{0,80}\bcheckpoint")


@dataclass(slots=True)
class Pulse:
    """One attempt's signs of life. `has_steps`: its steps can be told; where they cannot, any output counts as one."""

    has_steps: bool
    slowest_s: float = 0.0
    _heard: bool = False
    _stepped: bool = False
    _saves: bool = False
    _restores: bool = False
    _heard_at: float = 0.0
    _idle_since: float = 0.0
    _last_step_at: float | None = None

    def listen(self, at: float) -> None:
        """Count from here."""
        self._heard_at = self._idle_since = at
        self._last_step_at = None

    def hear(self, at: float) -> None:
        """Some output came."""
        self._heard, self._heard_at = True, at
        if not self.has_steps:
            self._advance(at)

    def line(self, line: bytes, at: float, *, step: bool) -> None:
        """A whole line; what it says holds until the next step."""
        if step:
            self._saves = False
            self._advance(at)
        self._saves = self._saves or bool(_SAVES.search(line))
        self._restores = not self._stepped and (self._restores or bool(_RESTORES.search(line)))

    def _advance(self, at: float) -> None:
        if self._last_step_at is not None:
            self.slowest_s = max(self.slowest_s, at - self._last_step_at)
        self._stepped, self._idle_since, self._last_step_at = True, at, at

    def signs(self, now: float) -> Signs:
        """How it looks now."""
        return Signs(self._phase(), now - self._heard_at, now - self._idle_since, self.slowest_s)

    def _phase(self) -> str:
        if self._stepped:
            return CHECKPOINT if self._saves else TRAIN
        if not self._heard:
            return START
        return RESTORE if self._restores else COMPILE
