"""The multi-pattern engine: one RE2 set over every signature, and the places of those that matched.

RE2 runs in time linear in the input whatever the pattern, so no log can blow it up. The set says *which* signatures
occur in a block at the full speed of one pass; only those are then searched for one by one. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from tpuops.diagnosis.signatures import Library, Role, Signature, Texts, packaged, with_texts
from tpuops.errors import EnvironmentFileError

_SET_MEMORY = 256 << 20
"""Bytes the automaton may cache; states are built as logs need them, typically far below 4 MB."""
_CANARY = b"tpuops-canary-line"

IN_SET = frozenset({Role.STATE, Role.CAUSE, Role.SUSPECT, Role.ECHO, Role.EXCEPTION, Role.WRAPPER, Role.HINT})
"""Roles looked for in every block; the others are only asked of lines that matter."""


class Engine:
    """The compiled library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.signatures = [each for each in library.signatures if each.role in IN_SET | {Role.CONTEXT}]
        self.progress = _either(library, Role.PROGRESS)
        self.benign = _either(library, Role.BENIGN)
        self._searchers: dict[int, Any] = {}
        self._last = [(each, re2.compile(each.pattern, options())) for each in library.signatures if _is_last(each)]
        self._set = re2.Set.SearchSet(options(_SET_MEMORY))
        for each in self.signatures:
            _add(self._set, each)
        self.progress_index = self._set.Add(self.progress.pattern)
        self._canary_index = self._set.Add(_CANARY)
        self._set.Compile()
        if self.which(_CANARY) != [self._canary_index]:
            raise MemoryError("the signature automaton does not fit into its memory")

    def which(self, block: bytes) -> list[int]:
        """Indices of the patterns that occur in a block; `progress_index` stands for all progress lines."""
        return self._set.Match(block) or []

    def places(self, index: int, block: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
        """Where signature `index` occurs, from `start` on, in order and without overlap."""
        searcher = self._searchers.get(index)
        if searcher is None:
            searcher = self._searchers[index] = re2.compile(self.signatures[index].pattern, options())
        while (match := searcher.search(block, start)) is not None:
            yield match.span()
            start = max(match.end(), match.start() + 1)

    def last_words(self, text: bytes) -> list[Signature]:
        """Signatures that only speak when they are the end of a log, and occur in `text`."""
        return [each for each, searcher in self._last if searcher.search(text)]


def options(memory: int = 8 << 20) -> Any:
    """RE2 options for bytes: no character set is assumed, so invalid UTF-8 is only other bytes."""
    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.max_mem = memory
    chosen.log_errors = False
    return chosen


def _add(patterns: Any, signature: Signature) -> None:
    try:
        patterns.Add(signature.pattern)
    except re2.error as error:
        raise EnvironmentFileError("a signature file is not sound", evidence=[_unreadable(signature)]) from error


def _is_last(signature: Signature) -> bool:
    return signature.role is Role.LAST


def _either(library: Library, role: Role) -> Any:
    """One pattern out of all of a role; matches nothing where there is none."""
    sources = [each.pattern for each in library.signatures if each.role is role]
    return re2.compile(b"|".join(b"(?:" + each + b")" for each in sources) or rb"[^\x00-\xff]", options())


@lru_cache(maxsize=1)
def packaged_engine() -> Engine:
    """The engine for the packaged library, compiled once a process (a few tens of milliseconds)."""
    return Engine(packaged())


@lru_cache(maxsize=4)
def engine_for(progress: str = "", texts: Texts = ()) -> Engine:
    """The engine that also knows an environment's progress lines, where RE2 can read them, and its own messages.

    Raises:
        EnvironmentFileError: with every problem of its signature files.
    """
    library = with_texts(texts)
    _try_examples(library)
    if _is_readable(progress):
        own = Signature("environment-progress", "environment", Role.PROGRESS, progress.encode(), source="environment")
        library = Library((*library.signatures, own), library.conflicts, {**library.by_id, own.id: own})
    return packaged_engine() if library is packaged() else Engine(library)


def _is_readable(progress: str) -> bool:
    try:
        return bool(progress) and bool(re2.compile(progress.encode(), options()))
    except re2.error:
        return False


def _try_examples(library: Library) -> None:
    """Hold the user's own signatures against their examples; the packaged ones are held against theirs by tests."""
    known = packaged().by_id
    problems = []
    for each in library.signatures:
        if known.get(each.id) is each:
            continue
        try:
            searcher = re2.compile(each.pattern, options())
        except re2.error:
            problems.append(_unreadable(each))
            continue
        missed = [text for text in each.examples if not searcher.search(text.encode())]
        wrong = [text for text in each.counterexamples if searcher.search(text.encode())]
        problems += [f"{each.source}: {each.id}: does not match its example {text!r}" for text in missed]
        problems += [f"{each.source}: {each.id}: matches {text!r}, which it must not" for text in wrong]
    if problems:
        raise EnvironmentFileError("a signature file is not sound", evidence=problems)


def _unreadable(signature: Signature) -> str:
    return f"{signature.source}: {signature.id}: not a pattern RE2 knows: {signature.pattern.decode(errors='replace')}"
