"""The schemas that every `--json` document is held against, wherever a test meets one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).parent / "schemas"


def check(task: str, document: Any) -> None:
    """Raise where the document is not what scripts were promised; a failed command's may be its error alone."""
    if isinstance(document, dict) and "error" in document:
        jsonschema.validate(document, schema("failure"))
        if set(document) == {"error", "exit_code"}:
            return
    jsonschema.validate(document, schema(task))


def schema(task: str) -> dict[str, Any]:
    """The schema of one task's document."""
    return dict(json.loads((SCHEMAS / f"{task}.json").read_text()))
