"""The part of Compute's filter language that gcloud and scripts use: `field = value` terms joined by AND.

`labels.k=v`, `name=x`, `status!=y`, `name eq regex`, `name:prefix*`, each perhaps in brackets. A term that is not
understood keeps everything, so that a list may be too long but never hides a machine that bills.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tpuops.localcloud.core.world import Document

TERM = re.compile(r"^\(*\s*([\w.-]+?)\s*(!=|=|:|\beq\b|\bne\b)\s*(.+?)\s*\)*$")


def keep(found: Iterable[tuple[str, Document]], expression: str) -> Iterator[tuple[str, Document]]:
    """The entries that satisfy every term."""
    terms = [term for term in re.split(r"\s+AND\s+|\)\s*\(", expression) if term.strip()]
    for key, document in found:
        if all(_holds(document, term) for term in terms):
            yield key, document


def _holds(document: Mapping[str, Any], term: str) -> bool:
    parsed = TERM.match(term.strip())
    if not parsed:
        return True
    field, comparison, wanted = parsed.groups()
    found = _field(document, field)
    wanted = wanted.strip("\"'")
    if comparison == "eq":
        return re.fullmatch(wanted, found) is not None
    if comparison == "ne":
        return re.fullmatch(wanted, found) is None
    equal = found == wanted or found.rsplit("/", 1)[-1] == wanted or ("*" in wanted and fnmatchcase(found, wanted))
    if comparison == ":":
        equal = equal or wanted in found
    return equal != (comparison == "!=")


def _field(document: Mapping[str, Any], path: str) -> str:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)
