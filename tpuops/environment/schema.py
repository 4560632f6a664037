"""The JSON Schema of environment files, for editors that check while one types. Derived from the model, never by hand.

It knows the shape, not the rules between values: `env.check` has the last word.
"""

from __future__ import annotations

from typing import Any

from tpuops.environment.model import Environment

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The document, JSON values only."""
    made: dict[str, Any] = Environment.model_json_schema()
    made["properties"]["vm"] = {
        "anyOf": [{"$ref": "#/$defs/VmSection"}, {"const": "none"}],
        "default": "none",
        "description": "The machine beside the TPU, or none.",
    }
    return {"$schema": DIALECT, **made, "title": "tpuops environment"}
