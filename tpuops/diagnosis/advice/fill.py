"""Advice for a judgement: the signature's own words, with the parts of the message that they name filled in."""

from __future__ import annotations

from tpuops.diagnosis.judge import Judgement


def advice_for(judgement: Judgement) -> str:
    """One or a few sentences; empty where there is nothing to advise."""
    winner = judgement.winner
    return winner.hit.signature.advice if winner else ""
