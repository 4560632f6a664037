"""Fault scripts as files: YAML or JSON. What a script may say is checked by the core when it loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_script(path: Path) -> Any:
    """The script in a file. Raises OSError and ValueError, which names the file."""
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as problem:
        raise ValueError(f"{path}: {problem}") from problem
    return _plain([] if document is None else document)


def _plain(value: Any) -> Any:
    """YAML 1.1 reads the key `on` as true; put the word back."""
    if isinstance(value, dict):
        return {"on" if key is True else str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
