"""Puts a new environment into a folder: its file, and the example project where one was asked for.

Nothing that is there is ever written over, and nothing half-made is left: a file gets its name only when it is whole
and loads; a project's folder when all of it is copied.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from tpuops import templates
from tpuops.environment.load import FOLDER, load, of_text
from tpuops.environment.new import Composed, Wish, compose, in_short
from tpuops.errors import EnvironmentFileError

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True, slots=True)
class Written:
    """What was made: the environment's file with its content, and the project's folder (None: none was asked for)."""

    file: Path
    project: Path | None
    composed: Composed


def home_of(start: Path) -> Path:
    """The folder for environment files: the nearest one from `start` upwards, else one to be made at `start`."""
    bases = (start, *start.parents)
    return next((base / FOLDER for base in bases if (base / FOLDER).is_dir()), start / FOLDER)


def grants_near(start: Path) -> tuple[str, ...]:
    """The grants that environment files here already list, in short; a file that does not load tells none."""
    found: dict[str, None] = {}
    for path in sorted(home_of(start).glob("*.yaml")):
        try:
            listed = load(path).tpu.grants
        except EnvironmentFileError:
            continue
        found.update((in_short(each.model_dump()), None) for each in listed)
    return tuple(found)


def refuse_taken(wish: Wish, start: Path) -> None:
    """Raises `EnvironmentFileError` where the file, or the project's folder, is there already."""
    file = home_of(start) / f"{wish.name}.yaml"
    if file.exists() or file.is_symlink():
        hint = f"choose another name, or remove it first; `tpuops env.check --env {wish.name}` checks it"
        raise EnvironmentFileError(f"{file} exists, and is never written over", hint=hint)
    project = _project(wish, start)
    if project is not None and (project.exists() or project.is_symlink()):
        raise EnvironmentFileError(
            f"{project} exists, and is never written over",
            hint=f"choose another name, or use what is there: --source {project.name} in place of --template",
        )


def written(wish: Wish, start: Path) -> Written:
    """Make it. The wish must be whole and without objections.

    Raises:
        EnvironmentFileError: something of that name is there, or the source folder is not as the rules want it.
    """
    refuse_taken(wish, start)
    file, project = home_of(start) / f"{wish.name}.yaml", _project(wish, start)
    if project is not None:
        _copy(wish.template, project)
    try:
        source = project or (start / Path(wish.source).expanduser()).absolute()
        composed = compose(wish, os.path.relpath(source, file.parent))
        of_text(composed.text, file)
        _put(file, composed.text)
    except BaseException:
        if project is not None:
            shutil.rmtree(project, ignore_errors=True)
        raise
    return Written(file, project, composed)


def _project(wish: Wish, start: Path) -> Path | None:
    """Beside the folder of environment files."""
    return home_of(start).parent / wish.name if wish.template else None


def _copy(template: str, project: Path) -> None:
    partial = project.with_name(f".{project.name}.{secrets.token_hex(4)}.partial")
    try:
        shutil.copytree(templates.folder(template), partial, ignore=_LEFT_OUT)
        for path in (*partial.rglob("*"), partial):
            _settle(path)
        partial.rename(project)
        _settle(project.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _settle(path: Path) -> None:
    """Have a file or a folder on the disk, so that what gets its name next is whole also after a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put(file: Path, text: str) -> None:
    """The text under its name, whole, unless somebody was faster."""
    file.parent.mkdir(exist_ok=True)
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("x", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        os.link(partial, file)
        _settle(file.parent)
    except FileExistsError as error:
        raise EnvironmentFileError(f"{file} exists, and is never written over") from error
    finally:
        partial.unlink(missing_ok=True)
