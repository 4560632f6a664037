"""From a name to a file to a value: the only place of this room that reads the disk.

Every problem of a file is told at once. Nothing here changes anything, and nothing falls back to a default silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

import tpuops
from tpuops.environment import complaints, document, grants, rules
from tpuops.environment.document import Document
from tpuops.environment.model import Environment
from tpuops.environment.problems import Finding, Problem, did_you_mean, line_of, placed
from tpuops.environment.problems import Path as Keys
from tpuops.errors import EnvironmentFileError

FOLDER = "environments"


def load(path: Path) -> Environment:
    """The environment in a file.

    Raises:
        EnvironmentFileError: with every problem as `file:line: key.path: message` in its evidence.
    """
    return of_text(_text(path.absolute(), _shown(path.absolute())), path)


def of_text(text: str, path: Path) -> Environment:
    """The environment in a text that is, or is to be, the content of a file. Raises as `load`."""
    path = path.absolute()
    shown, read = _shown(path), document.parse(text)
    environment, found = _validated(read, path)
    problems = sorted({*read.problems, *(placed(finding, read.lines) for finding in found)})
    if problems or environment is None:
        raise _error(shown, problems)
    return environment


def refused(environment: Environment, found: Iterable[Finding]) -> EnvironmentFileError:
    """The error for what shows only after loading, in the words and with the lines of the file's own problems."""
    return _error(_shown(environment.path), sorted({placed(finding, environment.lines) for finding in found}))


def whereabouts(environment: Environment, path: Keys) -> str:
    """`file:line` of a field, as its reader would type the file."""
    return f"{_shown(environment.path)}:{line_of(path, environment.lines)}"


def find(name: str, start: Path) -> Path:
    """The file of an environment: a path to a YAML file, or a name looked up from `start` upwards, then as packaged.

    Raises:
        EnvironmentFileError: there is none; near names are suggested.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = start / name
        if path.is_file():
            return path.absolute()
        raise EnvironmentFileError(f"there is no file {name}", hint="`tpuops env.list` shows the known environments")
    known = available(start)
    if name in known:
        return known[name]
    near = did_you_mean(name, known) or f"there are: {', '.join(sorted(known)) or 'none'}"
    raise EnvironmentFileError(f"there is no environment {name!r}", hint=near)


def available(start: Path) -> dict[str, Path]:
    """Every environment visible from `start` by name; a nearer one hides a farther or packaged one."""
    found: dict[str, Path] = {}
    for folder in _folders(start.absolute()):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def _folders(start: Path) -> Iterator[Path]:
    for base in (start, *start.parents):
        if (base / FOLDER).is_dir():
            yield base / FOLDER
    package = Path(tpuops.__file__).resolve().parent
    # The wheel carries them inside the package; a checkout has them beside it.
    yield from (folder for folder in (package / f"_{FOLDER}", package.parent / FOLDER) if folder.is_dir())


def _text(path: Path, shown: str) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise EnvironmentFileError(f"{shown} is not UTF-8 text", hint="save it as UTF-8") from error
    except OSError as error:
        raise EnvironmentFileError(f"cannot read {shown}: {error.strerror}") from error


def _validated(read: Document, path: Path) -> tuple[Environment | None, list[Finding]]:
    """The model where it holds, and what model and rules object to."""
    if not read.value:
        return None, []
    environment, found = None, []
    try:
        environment = Environment.model_validate(read.value, context={"path": path, "lines": read.lines})
    except ValidationError as error:
        found = [complaints.finding(detail) for detail in error.errors(include_url=False)]
    draft = rules.Draft(read.value, frozenset(finding.path for finding in found), path)
    return environment, [*found, *rules.findings(draft, (*rules.RULES, *grants.RULES))]


def _error(shown: str, problems: list[Problem]) -> EnvironmentFileError:
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    lines = [line for problem in problems for line in problem.text(shown)]
    return EnvironmentFileError(f"{shown}: {count}", evidence=lines, hint="nothing was called or changed")


def _shown(path: Path) -> str:
    """The file as its reader would type it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
