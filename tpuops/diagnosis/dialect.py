"""The dialect signatures are written in, and its translation to RE2.

A pattern is RE2 syntax over bytes with three conveniences, so that a signature names what is fixed in a message and
nothing else: a plain space stands for any white space including a wrapped line's break and margin (` ?` for
none or some); `...` stands for anything on the same line; `{name}` stands for a varying part out of `PARTS`. Nothing
here knows a class or a verdict.
"""

from __future__ import annotations

import re

PREFIX = (
    rb"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]+(?:Z|[+-][0-9:]+)?[ \t]+"  # a shipper's time stamp
    rb"|[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [\w.-]+ [\w./-]+(?:\[[0-9]+\])?: "  # journal
    rb"|\[[\w .:-]*\][ \t]+"  # [3], [rank 0]
    rb"|\((?:[\w.-]+ [^()\n]*)?pid=[^()\n]*\)[ \t]*"  # ray
    rb"|(?:[0-9]{1,3}\.){3}[0-9]{1,3}[ \t]+"  # xla_dist
    rb"|[\w.-]+[ \t]*\|[ \t])"  # compose
)
"""What launchers and log shippers put before a line."""

PARTS = {
    "start": rb"(?m:^|\x0b)" + PREFIX + rb"*",
    "end": rb"[ \t]*(?m:$|\x0b)",
    "n": rb"[0-9][0-9,._]*",
    "hex": rb"[0-9a-fA-F]{4,}",
    "word": rb"[A-Za-z_][\w.:-]*",
    "quote": rb"[\"'`\\\x80-\xff]*",
    "path": rb"[^ \t\n\x0b'\"]+",
    "ip": rb"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}",
    "size": rb"[0-9][0-9.,]* ?[KMGT]?i?[Bb]?",
    "exc": rb"(?:[A-Za-z_][\w]*\.)*",
    "log": rb"(?:[\w.*\[\]():/<>| -]*[\]):>|]+[ \t]*)?",
}
"""Varying parts by name. `start` and `end` also know carriage returns, which reading turns into vertical tabs."""

_SPACE = rb"(?:[ \t\n>|\x0b]|\xe2\x94\x82|\\n)"
_REST = rb"[^\n\x0b]*"
_TOKEN = re.compile(rb"\\.|\[(?:\\.|[^\]\\])+\]|\{([a-z]+)\}|\.\.\.| +([?*+]?)", re.DOTALL)


def translate(pattern: str) -> bytes:
    """The RE2 source for a pattern of the dialect. Raises `KeyError` for an unknown `{name}`."""
    return _TOKEN.sub(_translated, pattern.encode())


def _translated(token: re.Match[bytes]) -> bytes:
    text = token.group()
    if token.group(1) is not None:
        return PARTS[token.group(1).decode()]
    if text == b"...":
        return _REST
    if not text.startswith(b" "):
        return text
    return _SPACE + (b"*" if token.group(2) in {b"?", b"*"} else b"+")
