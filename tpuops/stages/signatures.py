"""Signatures: the environment's own messages, read and tried once, before anything is called or started.

What is read here goes with the evidence of every attempt, so that a file that changes meanwhile changes no verdict.
"""

from __future__ import annotations

from tpuops.diagnosis.engine import engine_for
from tpuops.diagnosis.signatures import Texts, texts_of, with_texts
from tpuops.environment import Environment


def own(environment: Environment) -> Texts:
    """The signature files that the environment names.

    Raises:
        EnvironmentFileError: with every problem of theirs as `file:line: id: message`.
    """
    texts = texts_of(environment.recovery.signature_files(environment.path))
    if texts:
        engine_for(environment.train.progress or "", texts)
    return texts


def conflicts(texts: Texts) -> tuple[str, ...]:
    """Which of them replace or contradict others, as `file:line: id: what`."""
    return with_texts(texts).conflicts
