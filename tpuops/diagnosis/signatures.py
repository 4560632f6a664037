"""The signature library: what programs print when they fail, as data, one YAML file a family.

A signature says who prints a message, what it means and how much it weighs against others; its examples are its tests.
This room loads and checks; it matches nothing and decides nothing. Users add files of their own; a user's signature
with a packaged id replaces it and is reported as a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from tpuops.diagnosis.classes import CLASSES
from tpuops.diagnosis.dialect import translate
from tpuops.diagnosis.verdict import Action
from tpuops.errors import EnvironmentFileError

LIBRARY_VERSION = 1
"""The form of a library file; a file of another version is refused."""


class Role(StrEnum):
    """How a message weighs. The order of the first six is the order in which they win."""

    STATE = "state"
    CAUSE = "cause"
    SUSPECT = "suspect"
    ECHO = "echo"
    EXCEPTION = "exception"
    WRAPPER = "wrapper"
    HINT = "hint"
    LAST = "last"
    CONTEXT = "context"
    BENIGN = "benign"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class Case:
    """A refinement: where all of `given` also fired (and none of `absent`), class or action differ.

    `stepping` asks whether training had advanced before the line; None does not care.
    """

    given: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stepping: bool | None = None
    failure_class: str = ""
    action: Action | None = None
    drop: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """One message. `echo_of` names classes (or `any`) whose presence in the same log explains it away."""

    id: str
    family: str
    role: Role
    pattern: bytes
    failure_class: str = "healthy"
    action: Action = Action.NONE
    framework: str = ""
    origin: str = ""
    echo_of: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    advice: str = ""
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()
    least: int = 1
    confidence: str = "high"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Library:
    """Signatures in file order, with what clashed while they were loaded."""

    signatures: tuple[Signature, ...]
    conflicts: tuple[str, ...] = ()
    by_id: Mapping[str, Signature] = field(default_factory=dict)


@lru_cache(maxsize=1)
def packaged() -> Library:
    """The library that travels with tpuops. Raises `EnvironmentFileError` where a file is not sound."""
    folder = files("tpuops.diagnosis") / "library"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return assemble((name, (folder / name).read_text(encoding="utf-8")) for name in names)


Texts = tuple[tuple[str, str], ...]
"""Signature files as name and content."""


def texts_of(paths: Iterable[Path]) -> Texts:
    """The files' contents.

    Raises:
        EnvironmentFileError: one cannot be read.
    """
    found = []
    for path in paths:
        try:
            found.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise EnvironmentFileError(f"cannot read the signature file {path}: {why}") from error
    return tuple(found)


def with_user_files(paths: Iterable[Path]) -> Library:
    """The packaged library and a user's files, later ones winning; each replacement is a conflict that is named."""
    return with_texts(texts_of(paths))


def with_texts(texts: Texts) -> Library:
    """As `with_user_files`, of what was read already."""
    return assemble(texts, onto=packaged()) if texts else packaged()


def assemble(texts: Iterable[tuple[str, str]], onto: Library | None = None) -> Library:
    """A library out of named YAML texts. Every problem of every file is reported at once."""
    by_id = dict(onto.by_id) if onto else {}
    patterns = {each.pattern: each.id for each in by_id.values()}
    conflicts = list(onto.conflicts) if onto else []
    problems: list[str] = []
    for name, text in texts:
        for signature in _read(name, text, problems):
            conflicts += _conflicts(signature, by_id, patterns)
            by_id[signature.id] = signature
            patterns[signature.pattern] = signature.id
    problems += _unknown_references(by_id)
    if problems:
        raise EnvironmentFileError("a signature file is not sound", evidence=problems)
    return Library(tuple(by_id.values()), tuple(conflicts), by_id)


def _conflicts(new: Signature, by_id: Mapping[str, Signature], patterns: Mapping[bytes, str]) -> list[str]:
    if new.id in by_id:
        return [f"{new.source}: {new.id}: replaces the one in {by_id[new.id].source}"]
    twin = patterns.get(new.pattern)
    if twin and by_id[twin].failure_class != new.failure_class:
        other = by_id[twin]
        return [f"{new.source}: {new.id}: same pattern as {twin}, other class ({other.failure_class})"]
    return []


def _unknown_references(by_id: Mapping[str, Signature]) -> list[str]:
    problems = []
    for each in by_id.values():
        named = {name for case in each.cases for name in (*case.given, *case.absent)}
        problems += [f"{each.source}: {each.id}: case names unknown signature {name}" for name in named - set(by_id)]
        classes = {*each.echo_of, *(case.failure_class for case in each.cases)} - {"any", ""}
        problems += [f"{each.source}: {each.id}: unknown class {name}" for name in classes - set(CLASSES)]
    return problems


def _read(name: str, text: str, problems: list[str]) -> list[Signature]:
    try:
        document, lines = _parsed(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(f"{name}:{line}: not YAML: {error.problem or error}")
        return []
    except (yaml.YAMLError, AttributeError) as error:
        problems.append(f"{name}:1: not a signature file: {error}")
        return []
    if document.get("version") != LIBRARY_VERSION or not document.get("family"):
        problems.append(f"{name}:1: needs `version: {LIBRARY_VERSION}` and a `family`")
        return []
    found = []
    for line, entry in zip(lines, document.get("signatures") or [], strict=True):
        try:
            found.append(_signature(entry, document, f"{name}:{line}"))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            who = entry.get("id", "a signature") if isinstance(entry, dict) else repr(entry)
            problems.append(f"{name}:{line}: {who}: {_said(error)}")
    return found


def _parsed(text: str) -> tuple[Mapping[str, Any], list[int]]:
    """The document, and the line of each of its signatures."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise AttributeError("it holds no keys")
        document = loader.construct_document(node)
    finally:
        loader.dispose()
    entries = [value for key, value in node.value if key.value == "signatures"]
    listed = entries[-1].value if entries and isinstance(entries[-1], yaml.SequenceNode) else []
    return dict(document), [entry.start_mark.line + 1 for entry in listed]


def _said(error: Exception) -> str:
    """What is wrong with a signature, in words."""
    if isinstance(error, KeyError):
        name = error.args[0]
        return f"`{name}` is missing" if name in _KEYS else f"there is no class or varying part `{name}`"
    return str(error)


_KEYS = frozenset(
    {"id", "class", "role", "match", "action", "framework", "origin", "echo_of", "cases", "advice"}
    | {"examples", "not", "least", "confidence"}
)


def _signature(entry: Mapping[str, Any], document: Mapping[str, Any], source: str) -> Signature:
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    role = Role(entry.get("role", "cause"))
    failure_class = entry.get("class", "healthy" if role in {Role.BENIGN, Role.PROGRESS, Role.CONTEXT} else "")
    default = CLASSES[failure_class].action
    return Signature(
        id=entry["id"],
        family=document["family"],
        role=role,
        pattern=translate(entry["match"]),
        failure_class=failure_class,
        action=Action(entry["action"]) if "action" in entry else default,
        framework=entry.get("framework", document.get("framework", "")),
        origin=entry.get("origin", document.get("origin", "")),
        echo_of=tuple(entry.get("echo_of", ())),
        cases=tuple(_case(each) for each in entry.get("cases", ())),
        advice=entry.get("advice", ""),
        examples=tuple(entry.get("examples", ())),
        counterexamples=tuple(entry.get("not", ())),
        least=int(entry.get("least", 1)),
        confidence=entry.get("confidence", "medium" if role in {Role.ECHO, Role.SUSPECT} else "high"),
        source=source,
    )


def _case(entry: Mapping[str, Any]) -> Case:
    return Case(
        given=tuple(entry.get("with", ())),
        absent=tuple(entry.get("without", ())),
        stepping=entry.get("stepping"),
        failure_class=entry.get("class", ""),
        action=Action(entry["action"]) if "action" in entry else None,
        drop=bool(entry.get("drop", False)),
    )
