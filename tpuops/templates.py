"""Finds the templates, renders them strictly, and packs the program for the machines.

In a checkout they lie in `templates/` at the root, in an installed wheel in `tpuops/_templates`. Rendering refuses an
undefined name and anything but plain values; nothing here knows what a template is for.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import jinja2
import jinja2.sandbox

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE.parent / "templates", _PACKAGE / "_templates")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold: the same sources give the same bytes


def folder(name: str = "") -> Path:
    """The folder of the templates, or the one named `name` in it (`digits`, `worker/agent`).

    Raises `FileNotFoundError`: the installation is incomplete.
    """
    for place in _PLACES:
        found = place / name
        if (place / "worker").is_dir() and found.exists():
            return found
    raise FileNotFoundError(f"template {name!r} is neither in {_PLACES[0]} nor in {_PLACES[1]}")


class _StrictSandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Templates see the values they are given and the filters of Jinja, no Python."""

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Only items of mappings and sequences: no attribute of any object."""
        return False


def render(name: str, values: Mapping[str, str | int | float | bool | tuple[str, ...]]) -> str:
    """The template file `name` with `values` in it.

    Raises `jinja2.UndefinedError` for a name that is not given, `jinja2.exceptions.SecurityError` for anything that
    reaches for Python, `FileNotFoundError` where there is no such template.
    """
    return render_text(folder(name).read_text(encoding="utf-8"), values)


def render_text(text: str, values: Mapping[str, str | int | float | bool | tuple[str, ...]]) -> str:
    """`render` for a text at hand."""
    environment = _StrictSandbox(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)
    return environment.from_string(text).render(dict(values))


def agent_program() -> bytes:
    """The program for the machines: `worker/agent`."""
    return _program("worker/agent")


@functools.cache
def reaper_script() -> str:
    """The start-up script that puts the reaper on a machine and starts it: the same text for every environment."""
    program = base64.encodebytes(_program("worker/reaper")).decode("ascii").strip()
    return render("worker/reaper/startup.sh", {"program": program})


@functools.cache
def _program(name: str) -> bytes:
    """The modules of a folder as one file that `python3` runs: a zip, equal byte for byte wherever it is built from the
    same sources."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder(name).glob("*.py")):
            entry = zipfile.ZipInfo(path.name, _EPOCH)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def agent_digest() -> str:
    """What names the program's content: 16 hex digits of its sha256."""
    return hashlib.sha256(agent_program()).hexdigest()[:16]
