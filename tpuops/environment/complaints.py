"""Pydantic's errors in the words of somebody who edits a file. Pure translation, one error at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tpuops.environment.model import Environment
from tpuops.environment.problems import Finding, Path, Wrong, did_you_mean, dotted

_KINDS = {str: "a text", bool: "true or false", int: "a number", float: "a number", dict: "keys", tuple: "a list"}
_TPU_NODE = (
    "Google closed the TPU Node architecture (a VM talking to a remote TPU over gRPC) in 2025; new ones are refused",
    "remove the line: tpuops runs the program on the TPU VM itself (in TensorFlow: TPUClusterResolver(tpu='local'))",
)
_TPU_VM = ("every TPU here is a TPU VM; there is nothing to choose", "remove the line")


def finding(error: ErrorDetails) -> Finding:
    """What to tell about one validation error."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    message, hint = _TEXTS.get(error["type"], _otherwise)(path, error)
    return Finding(path, message, hint)


def sections(model: type[BaseModel] = Environment, path: Path = ()) -> dict[Path, tuple[str, ...]]:
    """Every section's path with the keys that may stand in it; `*` stands for names of the user's own."""
    found: dict[Path, tuple[str, ...]] = {path: tuple(model.model_fields)}
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= sections(kind, (*path, name, *(["*"] if get_origin(field.annotation) is Mapping else [])))
    return found


def _keys_of(path: Path) -> tuple[str, ...]:
    """The keys of the section at a place; the entries of a list are all of one kind."""
    named, known = tuple(part for part in path if isinstance(part, str)), sections()
    return known.get(named) or known.get((*named[:-1], "*"), ())


def _unknown(path: Path, error: ErrorDetails) -> tuple[str, str]:
    key = str(path[-1])
    if key == "architecture":
        return _TPU_NODE if str(error["input"]).lower().replace("_", "-") in {"tpu-node", "node"} else _TPU_VM
    if key == "<<":
        return "merge keys are not read", "write the values out"
    known = sections()
    here = _keys_of(path[:-1])
    elsewhere = [dotted((*section, key)) for section, keys in known.items() if key in keys]
    hint = did_you_mean(key, here) or (
        f"did you mean {elsewhere[0]}?" if elsewhere else f"known keys: {', '.join(here)}"
    )
    return "unknown key", hint


def _literal(_: Path, error: ErrorDetails) -> tuple[str, str]:
    choices = re.findall(r"'([^']*)'", error["ctx"]["expected"]) or [error["ctx"]["expected"]]
    given = error["input"]
    hint = did_you_mean(given, choices) if isinstance(given, str) else ""
    return f"must be {' or '.join(choices)}, not {_shown(given)}", hint


def _text(_: Path, error: ErrorDetails) -> tuple[str, str]:
    given = error["input"]
    hint = f'put it in quotes: "{_spelled(given)}"' if isinstance(given, bool | int | float) else ""
    return f"must be a text, not {_kind(given)}", hint


def _list(_: Path, error: ErrorDetails) -> tuple[str, str]:
    given = error["input"]
    hint = f"write it as a list: [{', '.join(given.split())}]" if isinstance(given, str) else ""
    return f"must be a list, not {_kind(given)}", hint


def _section(path: Path, error: ErrorDetails) -> tuple[str, str]:
    keys = ", ".join(_keys_of(path))
    hint = f"its keys: {keys}" if keys else "write `name: value` lines below it"
    if error["input"] is None:
        return "is empty", f"remove the line, or write its keys below it ({keys})" if keys else hint
    return f"must hold keys, not {_kind(error['input'])}", hint


def _number(_: Path, error: ErrorDetails) -> tuple[str, str]:
    return f"must be a whole number, not {_shown(error['input'])}", ""


def _least(_: Path, error: ErrorDetails) -> tuple[str, str]:
    return f"must be at least {error['ctx']['ge']}, not {error['input']}", ""


def _most(_: Path, error: ErrorDetails) -> tuple[str, str]:
    return f"must be at most {error['ctx']['le']}, not {error['input']}", ""


def _own(_: Path, error: ErrorDetails) -> tuple[str, str]:
    reason = error["ctx"]["error"]
    return (reason.message, reason.hint) if isinstance(reason, Wrong) else (str(reason), "")


def _otherwise(_: Path, error: ErrorDetails) -> tuple[str, str]:
    return error["msg"][:1].lower() + error["msg"][1:], ""


def _kind(value: Any) -> str:
    return "nothing" if value is None else _KINDS.get(type(value), "that")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else _kind(value)


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_TEXTS: Mapping[str, Callable[[Path, ErrorDetails], tuple[str, str]]] = {
    "missing": lambda path, _: ("is missing", f"its keys: {', '.join(sections()[path])}" if path in sections() else ""),
    "extra_forbidden": _unknown,
    "literal_error": _literal,
    "string_type": _text,
    "tuple_type": _list,
    "model_type": _section,
    "mapping_type": _section,
    "dict_type": _section,
    "bool_type": lambda _, error: (f"must be true or false, not {_shown(error['input'])}", ""),
    "int_type": _number,
    "int_from_float": _number,
    "greater_than_equal": _least,
    "less_than_equal": _most,
    "too_short": lambda _, __: ("must not be empty", "give at least one word"),
    "value_error": _own,
}
