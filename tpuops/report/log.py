"""A training log on somebody's terminal: the text as it is, without the control codes that could drive the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|.)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(data: bytes) -> str:
    """Readable text of log bytes: escape sequences and control characters gone, bad UTF-8 replaced."""
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def cleaned(value: Any) -> Any:
    """A JSON value whose texts are safe to show: what stood in a log may reach a terminal only so."""
    if isinstance(value, str):
        return clean(value.encode(errors="replace"))
    if isinstance(value, Mapping):
        return {key: cleaned(each) for key, each in value.items()}
    return [cleaned(each) for each in value] if isinstance(value, list | tuple) else value
