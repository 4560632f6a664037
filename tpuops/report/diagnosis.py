"""What `diagnose` says to a person: the cause in its context, echoes folded, and on request why one message won.

Takes the documents of `tpuops.diagnosis.report_of` and returns lines; whoever calls decides where they go. Colour only
decorates what the words already say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tpuops.report.console import PLAIN, RED

_WIDTH = 160


def told(documents: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, explain: bool, colour: bool = False) -> str:
    """The whole answer for a terminal, for one document or for several of one run."""
    listed = [documents] if isinstance(documents, Mapping) else list(documents)
    blocks = []
    if len(listed) > 1:
        blocks.append("\n".join(_overall(listed)))
    blocks += ["\n".join(_one(each, explain=explain, colour=colour)) for each in listed]
    return "\n\n".join(blocks)


def _overall(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cause = next((each for each in documents if each["cause"] and each["class"] != "healthy"), None)
    if cause is None:
        yield f"No cause in any of {len(documents)} logs."
        return
    yield f"Cause: {cause['class']} in {_name(cause)}, line {cause['line_number']}"
    echoing = [each for each in documents if "echo_of" in each]
    if echoing:
        counted = Counter(each["class"] for each in echoing)
        yield "Echoes of it: " + ", ".join(f"{name} in {count} logs" for name, count in counted.items())


def _one(document: Mapping[str, Any], *, explain: bool, colour: bool) -> Iterator[str]:
    yield f"{_name(document)}: {document['class']} ({document['meaning']}), confidence {document['confidence']}"
    yield from _context(document, colour=colour)
    yield f"  would do: {document['move']}, as {document['action']}; {_short(document['reason'])}"
    if document["advice"]:
        yield f"  advice:   {document['advice']}"
    if "echo_of" in document:
        yield f"  echo of:  {document['echo_of']['class']} in {document['echo_of']['file']}"
    yield from _folded(document["echoes"])
    if explain:
        yield from _explained(document["explain"])


def _name(document: Mapping[str, Any]) -> str:
    return str(document["file"] or f"log {document['worker']}")


def _context(document: Mapping[str, Any], *, colour: bool) -> Iterator[str]:
    if not document["context"] and document["decisive_line"]:
        yield f"  {document['line_number']:>7} > {_short(document['decisive_line'])}"
    for line in document["context"]:
        mark = ">" if line["line_number"] == document["line_number"] else " "
        text = f"  {line['line_number']:>7} {mark} {_short(line['text'])}"
        yield f"{RED}{text}{PLAIN}" if colour and mark == ">" else text


def _folded(echoes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counted = Counter(each["class"] for each in echoes)
    for name, count in counted.items():
        first = min(each["line_number"] for each in echoes if each["class"] == name)
        yield f"  echo:     {name}, {count} time{'s' if count > 1 else ''}, first at line {first}"


def _explained(explanation: Mapping[str, Any]) -> Iterator[str]:
    yield f"  why:      {explanation['why']}"
    for fired in explanation["fired"]:
        mark = "won" if fired["won"] else fired["set_aside"] or "did not win"
        yield f"    line {fired['line_number']}: {fired['signature']} ({fired['role']}, {fired['class']}): {mark}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _WIDTH else f"{flat[: _WIDTH - 3]}..."
