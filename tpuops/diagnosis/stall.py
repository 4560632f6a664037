"""Whether a program that lives has stalled: pure, from what was heard of it and for how long nothing was.

A healthy run is sacred, so doubt always waits: a compile may take half an hour (failures/taxonomy.md: 25 to 30 min),
a checkpoint or an evaluation may be silent for long, and a program that has shown no step yet is judged by its silence
alone, since its pattern may fit nothing it prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

START, COMPILE, RESTORE, TRAIN, CHECKPOINT = "start", "compile", "restore", "train", "checkpoint"
_SLOWEST_TIMES = 20
_TALKING_TIMES = 12


@dataclass(frozen=True, slots=True)
class Limits:
    """How long nothing may be heard: before the first step (and while it saves or evaluates), and between steps."""

    start_s: float
    train_s: float


@dataclass(frozen=True, slots=True)
class Signs:
    """What is seen of a living program: what it does, seconds since its last output and since its last step, and the
    longest time that one of its steps took so far."""

    phase: str
    silence_s: float
    idle_s: float
    slowest_s: float = 0.0

    @property
    def nothing_s(self) -> float:
        """For how long nothing advanced: in training steps count, elsewhere any output does."""
        return self.idle_s if self.phase == TRAIN else self.silence_s


def left_s(signs: Signs, limits: Limits) -> float:
    """How long it may go on like this before it counts as stalled; 0 or less: it does."""
    if signs.phase != TRAIN:
        return _silence_limit_s(signs, limits) - signs.silence_s
    silent_s = _silence_limit_s(signs, limits)
    return min(silent_s - signs.silence_s, _TALKING_TIMES * silent_s - signs.idle_s)


def stalled(signs: Signs, limits: Limits) -> str:
    """Why it counts as stalled, in words; empty while all may be well."""
    if left_s(signs, limits) > 0:
        return ""
    silent_s = _silence_limit_s(signs, limits)
    if signs.silence_s >= silent_s:
        return f"no output for {math.floor(signs.silence_s)} s, {math.floor(silent_s)} s are allowed"
    return (
        f"output, but no step for {math.floor(signs.idle_s)} s, {math.floor(_TALKING_TIMES * silent_s)} s are allowed"
    )


def _silence_limit_s(signs: Signs, limits: Limits) -> float:
    learned_s = max(limits.train_s, _SLOWEST_TIMES * signs.slowest_s)
    if signs.phase == TRAIN:
        return learned_s
    return max(limits.start_s, learned_s) if signs.phase == CHECKPOINT else limits.start_s
