"""Templates are found, rendered strictly, and packed the same way each time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jinja2
import pytest

from tpuops import templates


def test_values_are_rendered_and_a_final_newline_stays() -> None:
    text = "a {{ x }}\n{% for y in z %}{{ y|upper }}{% endfor %}\n"
    assert templates.render_text(text, {"x": 1, "z": ("p", "q")}) == "a 1\nPQ\n"


def test_an_undefined_name_is_refused() -> None:
    with pytest.raises(jinja2.UndefinedError):
        templates.render_text("{{ missing }}", {})


@pytest.mark.parametrize(
    "text",
    [
        "{{ x.__class__ }}",
        "{{ x.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.join.__globals__ }}",
        "{{ x|attr('__class__') }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ self.__init__ }}",
        "{{ lipsum.__globals__ }}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ '{0.__class__.__mro__}'.format(x) }}",
        "{{ x.upper() }}",
    ],
)
def test_what_reaches_for_python_is_refused_at_once(text: str) -> None:
    began = time.monotonic()
    with pytest.raises((jinja2.exceptions.SecurityError, jinja2.UndefinedError, OverflowError)):
        templates.render_text(text, {"x": "value"})
    assert time.monotonic() - began < 1


def test_a_missing_template_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        templates.folder("no-such")


def test_the_program_is_the_same_bytes_with_other_times_and_in_a_wheels_layout(
    tmp_path: Path,
) -> None:
    package = tmp_path / "tpuops"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(templates.__file__, package / "templates.py")
    shutil.copytree(templates.folder(), package / "_templates", copy_function=shutil.copyfile)
    for path in (package / "_templates").rglob("*.py"):
        os.utime(path, (1, 1))
    code = "from tpuops import templates; print(templates.agent_digest())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == templates.agent_digest()
