"""What `diagnose` says to a person: what happened, the line in its context, what to do, echoes folded; on request why.

Takes the documents of `tpuops.diagnosis.logs` and returns lines; whoever calls decides where they go. Colour only
decorates what the words already say, and everything is said once.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tpuops.report.console import PLAIN, RED

WIDTH = 120
_DECISIVE_LINES = 6
"""Lines of the screen that a long decisive line may take."""
_DO = {
    "none": "nothing",
    "retry_in_place": "start the process again",
    "wait_and_retry": "wait, and try again",
    "stop_start_tpu": "stop and start the TPU",
    "recreate_tpu": "delete the TPU and make it anew",
    "recreate_in_other_zone": "make the TPU in another zone",
    "fix_credentials": "mend login or permissions",
    "fix_ssh_keys": "mend the SSH keys",
    "fix_config": "mend the configuration",
    "fix_code_or_model": "mend the code or the model",
    "reduce_memory": "need less memory",
    "grow_host_memory": "give the host more memory, or need less",
    "free_disk": "free disk space",
}
_OF_THE_MACHINE = frozenset({"stop_start_tpu", "recreate_tpu", "recreate_in_other_zone"})
_MOVES = {
    "finish": "leave it: it is done, or goes on",
    "restart": "restart the process in place",
    "stop_start": "stop and start the TPU",
    "recreate": "make the TPU anew",
    "reconnect": "leave it alone and keep watching",
    "give_up": "give up",
}


def told(
    documents: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    explain: bool,
    colour: bool = False,
    width: int = WIDTH,
) -> str:
    """The whole answer for a terminal, for one document or for several of one run."""
    listed = [documents] if isinstance(documents, Mapping) else list(documents)
    blocks = ["\n".join(_overall(listed))] if len(listed) > 1 else []
    blocks += [
        "\n".join(_one(each, explain=explain, colour=colour, width=width))
        for each in sorted(listed, key=lambda each: "echo_of" in each)
    ]
    return "\n\n".join(blocks)


def _overall(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if "attempt" in documents[0]:
        tried = sum(each["attempt"] is not None for each in documents)
        yield f"Run {documents[0]['run_id']}, {tried} attempt{'s' if tried != 1 else ''}:"
        for each in documents:
            yield f"  {_name(each)}: {each['class']}{_end(each)}"
        return
    cause = next((each for each in documents if each["cause"] and each["class"] != "healthy"), None)
    if cause is None:
        yield f"No cause in any of {len(documents)} logs."
        return
    yield f"Cause: {cause['class']} in {_name(cause)}, line {cause['line_number']}"
    echoing = [each for each in documents if "echo_of" in each]
    if echoing:
        counted = Counter(each["class"] for each in echoing)
        listed = [f"{name} in {count} log{'s' if count > 1 else ''}" for name, count in counted.items()]
        yield f"Echoes of it: {', '.join(listed)}"


def _end(document: Mapping[str, Any]) -> str:
    """How an attempt ended and what was done about it."""
    if document["alive"]:
        return ", still running"
    code = "" if document["exit_code"] is None else f", ended with code {document['exit_code']}"
    return code + (f", then: {_MOVES.get(document['done'], document['done'])}" if document["done"] else "")


def _one(document: Mapping[str, Any], *, explain: bool, colour: bool, width: int) -> Iterator[str]:
    where = f", line {document['line_number']}" if document["line_number"] and document["class"] != "healthy" else ""
    yield f"{_name(document)}{where}: {document['class']} ({document['meaning']}), confidence {document['confidence']}"
    if "echo_of" in document:
        yield from _context({**document, "context": []}, colour=False, width=width)
        yield f"  echo of:  {document['echo_of']['class']} in {document['echo_of']['file']}"
    elif document["class"] != "healthy":
        yield from _context(document, colour=colour, width=width)
        yield from _what_to_do(document, width)
        yield from _folded(document["echoes"])
    if explain:
        yield from _explained(document["explain"], width)


def _what_to_do(document: Mapping[str, Any], width: int) -> Iterator[str]:
    do = _DO.get(document["action"], document["action"]) if document["action"] != "none" else ""
    empty = document["basis"] == "log" and not document["decisive_line"]
    advice = "the log is empty" if empty else document["advice"]
    yield from _wrapped("  to do:    ", ": ".join(filter(None, (do, advice))), width)
    why = document["reason"].partition(": ")[0]
    if document["basis"] == "log" and document["move"] == "restart" and document["action"] in _OF_THE_MACHINE:
        why = "a log alone deletes nothing: it does that where the API says so, or when this comes again"
    yield from _wrapped("  tpuops:   ", f"would {_MOVES.get(document['move'], document['move'])} ({why})", width)


def _name(document: Mapping[str, Any]) -> str:
    return str(document["file"] or f"log {document['worker']}")


def _context(document: Mapping[str, Any], *, colour: bool, width: int) -> Iterator[str]:
    lines = document["context"] or [{"line_number": document["line_number"], "text": document["decisive_line"]}]
    while lines and not lines[-1]["text"].strip():
        lines = lines[:-1]
    if not any(line["text"].strip() for line in lines):
        return
    digits = max(3, len(str(lines[-1]["line_number"])))
    previous = lines[0]["line_number"] - 1
    yield ""
    for line in lines:
        number, decisive = line["line_number"], line["line_number"] == document["line_number"]
        if number > previous + 1:
            yield f"  {'...':>{digits + 2}}"
        previous = number
        shown = _fitted(document["decisive_line"] if decisive else line["text"], width - digits - 7, whole=decisive)
        for row, text in enumerate(shown):
            mark = f"{'>' if decisive else ' '} {number if row == 0 else '':>{digits}}"
            drawn = f"  {mark} | {text}".rstrip()
            yield f"{RED}{drawn}{PLAIN}" if colour and decisive else drawn
    yield ""


def _fitted(text: str, width: int, *, whole: bool) -> list[str]:
    """A line of a log with its indentation: the decisive one over several lines of the screen, others cut."""
    text = text.expandtabs(4).rstrip()
    if len(text) <= width:
        return [text]
    if not whole:
        return [text[: width - 3] + "..."]
    rows = [text[at : at + width] for at in range(0, len(text), width)]
    return (
        rows if len(rows) <= _DECISIVE_LINES else [*rows[: _DECISIVE_LINES - 1], rows[_DECISIVE_LINES - 1][:-3] + "..."]
    )


def _folded(echoes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counted = Counter(each["class"] for each in echoes)
    for name, count in counted.items():
        first = min(each["line_number"] for each in echoes if each["class"] == name)
        yield f"  echo:     {name}, {count} time{'s' if count > 1 else ''}, first at line {first}"


def _explained(explanation: Mapping[str, Any], width: int) -> Iterator[str]:
    yield from _wrapped("  why:      ", explanation["why"], width)
    for fired in explanation["fired"]:
        won = f"won; printed by {fired['origin']}" if fired["origin"] else "won"
        mark = won if fired["won"] else fired["set_aside"] or "did not win"
        yield f"    line {fired['line_number']}: {fired['signature']} ({fired['role']}, {fired['class']}): {mark}"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    """Prose with a hanging head."""
    flat = " ".join(text.split())
    return textwrap.wrap(flat, width, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False)
