"""The `tpuops` command: the same tasks as `invoke` runs in the repository, for use in any folder."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from invoke.program import Program

from tpuops import __version__
from tpuops.tasks.completing import complete
from tpuops.tasks.namespace import namespace


def main(argv: list[str] | None = None) -> None:
    """Run the tasks named in `argv` (the command line if None) and exit with their code.

    Usage errors are Invoke's own, exit 1.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _nothing_begun)
    complete(sys.argv[1:] if argv is None else argv[1:])
    try:
        Program(version=__version__, namespace=namespace(), name="tpuops", binary="tpuops").run(argv)
    except BrokenPipeError:  # `tpuops --list | head`: Invoke prints those itself
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _nothing_begun(number: int, _frame: FrameType | None) -> None:
    """Before a task's body begins there is nothing to clean up, and Invoke would say 1."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()
