"""Asking before something that hurts: the floors below know that somebody must agree, not how a person is asked."""

from __future__ import annotations

from typing import Protocol

from tpuops.errors import Busy


class Agree(Protocol):
    """Takes what would be done, as a question; returns where a person agreed, raises `Busy` where nobody did.

    `whose` names the other person whose run would end, empty where it is one's own: to that, nobody agrees unseen.
    """

    async def __call__(self, question: str, whose: str = "") -> None:
        """Ask."""


async def nobody(question: str, whose: str = "") -> None:
    """Where there is no one to ask: refuse."""
    raise Busy(question, hint="nothing was touched; --yes agrees beforehand")
