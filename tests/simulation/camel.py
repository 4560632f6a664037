"""How the client libraries spell a message as JSON."""

from __future__ import annotations

from typing import Any


def camel(value: Any, inside: str = "") -> Any:
    """A message's dict as its JSON: lowerCamelCase names, but the keys of labels and metadata as they are."""
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    if inside == "labels" or (inside == "metadata" and "items" not in value):
        return value
    return {_name(key): camel(each, key) for key, each in value.items()}


def _name(key: str) -> str:
    first, *rest = key.rstrip("_").split("_")
    return first + "".join(part.title() for part in rest)
