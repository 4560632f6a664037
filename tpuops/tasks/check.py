"""`invoke check`: what must hold before a change lands, the same on a laptop and in CI."""

from __future__ import annotations

from pathlib import Path

from tpuops.tasks.task import Answer, Invocation, UsageError, task

STEPS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("lint-imports",),
)
PYTEST = ("pytest", "--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder")
"""Three at a time, on two cores: most of what drives the embedded cloud waits. A file's tests share what was set up.
The files come in the order of tests/conftest.py, those that take long first."""


@task(help={"fast": "leave out the tests that drive the embedded cloud over the wire"})
def check(asked: Invocation, fast: bool = False) -> Answer:
    """Format, lint, types, import contracts and tests; ends on pytest's summary."""
    top = Path(__file__).resolve().parents[2]
    if not (top / "tests").is_dir():
        raise UsageError(
            "`check` works on a checkout of tpuops only", hint="git clone it, then `pip install -e .[dev]`"
        )
    tests = (*PYTEST, "-m", "not wire and not gcloud and not slow") if fast else PYTEST
    failed = [step for step in STEPS if _run(step, top, asked)]
    if failed:
        asked.say(f"failed so far: {', '.join(' '.join(step) for step in failed)}")
    return Answer(exit_code=1 if _run(tests, top, asked) or failed else 0)


def _run(step: tuple[str, ...], top: Path, asked: Invocation) -> int:
    """One tool of this very environment, whether or not its bin folder is on PATH; its exit code."""
    import subprocess
    import sys
    import time

    asked.say(f"== {' '.join(step)}")
    began = time.monotonic()
    code = subprocess.run([str(Path(sys.executable).parent / step[0]), *step[1:]], cwd=top, check=False).returncode
    if step[0] != "pytest":  # which tells its own time, and has the last word
        asked.say(f"-- {'failed' if code else 'ok'} in {time.monotonic() - began:.1f} s")
    return code
