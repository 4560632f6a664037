"""What differs from run to run in what tpuops says, by name; everything else must be word for word the same."""

from __future__ import annotations

import re
import socket
from itertools import groupby
from pathlib import Path

FILTERS: dict[str, tuple[str, str]] = {
    "run": (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "<run id..............>"),
    "time": (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z)", "<time>"),
    "pid": (r"\bprocess \d+", "process <pid>"),
    "port": (r"\bSSH port \d+", "SSH port <port>"),
    "url": (r"(?:http://)?127\.0\.0\.1:\d+/k-[\w-]+", "<url>"),
    "address": (r"\b127\.\d+\.\d+\.\d+\b", "<address>"),
    "hash": (r"(tpuops-\w+-\w+)-[0-9a-f]{8}\b", r"\1-<hash..>"),
    "age": (r"\brenewed \d+ s ago", "renewed <age> ago"),
    "ledger": (r"about \d+\.\d{4} USD( so far)", r"about <usd> USD\1"),
    "cost": (r"(cost: about )\d+\.\d{4}( USD by list price)", r"\1<usd>\2"),
    "goodput": (r"goodput \d+%", "goodput <n>%"),
    "live": (r"(is open, attempt \d+, )(?:no step told yet|step \d+(?:, goodput <n>%)?)", r"\1<how far>"),
    "left": (r"(?m)^(detached .* last step )\d+", r"\1<step>"),
    "packaged": (r"(?m)^(?:example|hardened|v\d\w*-\d+)  .*\n", ""),
    "bytes": (r"\b\d+(?:\.\d)? (?:B|KiB)\b", "<size>"),
    "generation": (r"\(generation \d+\)", "(generation <n>)"),
    "steps": (r"(?m)(?:^step=\d+ loss=\d\.\d+\n){6,}", "step=<...>\n"),
    "tools": (r"(?m)^(ok  tools +)Python .*$", r"\1<tools>"),
    "project": (r"\bnumber \d{9,}", "number <project number>"),
    "seconds": (r"\b\d+\.\d s\b *", "<s>  "),
    "column": (r" {2,}(<s>|took\b)", r"  \1"),  # as wide as the longest of the seconds
}
AT_ONCE = re.compile(r"(node|vm) [\w-]+: ")
"""TPU and VM are made and removed at once: which of their lines comes first is no message."""
STEP = re.compile(r"  \| step=")
STEPPING = re.compile(r"training: attempt \d+ steps from")
"""How many lines of the log came in one piece is chance: the first is kept, and what tpuops says of it follows it."""


def filtered(screen: str, folder: Path) -> str:
    """The screen with everything that differs put under its name."""
    text = screen.replace(str(folder), "<folder>").replace(f"on {socket.gethostname()}", "on <host>")
    for pattern, name in FILTERS.values():
        text = re.sub(pattern, name, text)
    return "".join(f"{line.rstrip()}\n" for line in _in_order(_one_step(text.splitlines())))


def _one_step(lines: list[str]) -> list[str]:
    kept: list[str] = []
    shown = any(STEP.match(line) for line in lines)
    for number, line in enumerate(lines):
        if STEPPING.match(line) and shown:
            continue
        if not STEP.match(line):
            kept.append(line)
        elif not (kept and STEP.match(kept[-1])) and not any(STEP.match(each) for each in _attempt(kept)):
            kept += [line, *[each for each in lines[number:] if STEPPING.match(each)][:1]]
    return kept


def _attempt(lines: list[str]) -> list[str]:
    """The lines since the last attempt began."""
    begun = [number for number, line in enumerate(lines) if line.startswith("training: run")]
    return lines[begun[-1] :] if begun else lines


def _in_order(lines: list[str]) -> list[str]:
    ordered: list[str] = []
    for at_once, group in groupby(lines, lambda line: bool(AT_ONCE.match(line))):
        together = list(group)
        ordered += sorted(together, key=lambda line: line.partition(" ")[0]) if at_once else together
    return ordered
