"""YAML text to plain values with the line of every key, refusing what a configuration file never needs.

Scalars follow YAML 1.2: `yes`, `on` and `1:30` are texts, since nobody who writes them means a boolean or sixty-fold
arithmetic. Tags, duplicate keys, deep nesting and multiplying aliases are refused; sequences become tuples. This room
knows nothing of what the keys mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from tpuops.environment.problems import Path, Problem, dotted

LARGEST_BYTES = 256 * 1024
DEEPEST = 20
MOST_VALUES = 5_000

_SCALARS: tuple[tuple[str, str, str], ...] = (
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN"),
)


@dataclass
class Document:
    """A file's values, the line of each key path, and what YAML itself forbids in it."""

    value: dict[str, Any] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars above instead of its own."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), [*_first, *([""] if _tag.endswith("null") else [])])


def parse(text: str) -> Document:
    """The document; where `problems` is not empty, `value` holds what could be understood."""
    document = Document()
    if len(text.encode()) > LARGEST_BYTES:
        document.problems.append(Problem(1, "", f"the file is larger than {LARGEST_BYTES // 1024} KiB"))
        return document
    try:
        document.problems += _forbidden(text)
        if document.problems:
            return document
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        document.problems.append(_syntax(error))
        return document
    if not isinstance(node, yaml.MappingNode):
        document.problems.append(Problem(1, "", "the file holds no keys", "start with `version: 1`"))
        return document
    conversion = _Conversion(document)
    conversion.mapping_into(node, (), document.value)
    if conversion.count > MOST_VALUES:
        document.value = {}  # half of a file that multiplies is worth no further word
    return document


def _forbidden(text: str) -> Iterator[Problem]:
    """Tags and deep nesting, seen in the flat stream of events before anything recursive reads the text."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if tag := getattr(event, "tag", None):
            yield Problem(line, "", f"the tag {tag} is not allowed", "write the plain value")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                yield Problem(line, "", f"nested deeper than {DEEPEST} levels")
                return
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _syntax(error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        message = " ".join(filter(None, [error.context, error.problem]))
        hint = "indent with blanks, not with tabs" if "'\\t'" in message else ""
        return Problem(mark.line + 1 if mark else 1, "", f"not YAML: {message}", hint)
    return Problem(1, "", f"not YAML: {str(error).splitlines()[0]}")


class _Conversion:
    """Nodes to values, counting them: an alias is read again at every use, so ten lines can ask for a billion."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0

    def mapping_into(self, node: yaml.MappingNode, path: Path, found: dict[str, Any]) -> None:
        """Fill `found`, which its parent already holds, with the pairs of `node`."""
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                self._refuse(line, path, "a key must be a text", "put it in quotes")
                continue
            key = key_node.value
            here = (*path, key)
            if key in found:
                self._refuse(line, here, f"is already given in line {self.document.lines[here]}", "keep one of them")
                continue
            self.document.lines[here] = line
            found[key] = self._value(value_node, here)

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self.count += 1
        line = node.start_mark.line + 1
        if self.count > MOST_VALUES or len(path) > DEEPEST:
            if self.count <= MOST_VALUES + 1:
                self._refuse(line, path, "aliases multiply beyond any use", "write the values out")
            self.count = MOST_VALUES + 1
            return None
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            self.mapping_into(node, path, found)
            return found
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._item(item, (*path, index)) for index, item in enumerate(node.value))
        return _scalar(node)

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self.document.lines[path] = node.start_mark.line + 1
        return self._value(node, path)

    def _refuse(self, line: int, path: Path, message: str, hint: str) -> None:
        self.document.problems.append(Problem(line, dotted(path), message, hint))


def _scalar(node: yaml.Node) -> Any:
    kind, text = node.tag.rpartition(":")[2], node.value
    if kind == "int":
        # Python refuses to read numbers of thousands of digits; as a text the model refuses it with its line.
        return int(text) if len(text) < 19 else text
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float":
        return float(text)
    return None if kind == "null" else text
