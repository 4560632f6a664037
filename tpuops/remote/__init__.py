"""The edge to machines, and the only user of SSH and of processes.

Commands are argv tuples, quoted once, here. Host keys are known before the first connection. No asyncssh or OS error
leaves this room: it is chained under `Unreachable` or `CommandFailed`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tpuops.errors import AccessError

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder that is no disk


def _have_a_temporary_folder() -> None:
    """asyncssh looks for a C library when it is imported, and Python needs a temporary folder for that search.

    Where the disk is full there is none, and even then machines must be reached, and taken down.

    Raises:
        AccessError: nothing at all can be written on this machine.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        if not MEMORY.is_dir():
            raise AccessError("no temporary folder can be written", hint="make room on this machine") from error
        tempfile.tempdir = str(MEMORY)


_have_a_temporary_folder()
