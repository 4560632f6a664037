"""Programs of this machine (gcloud, ssh-keygen, ...): asked for their output, or handed the terminal. Argv lists only.

A program that is not waited for any longer is ended, with whatever it started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass

from tpuops.errors import CommandFailed

NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended; `code` is 127 where it is not installed, and negative where a signal ended it."""

    code: int
    out: str
    err: str


def installed(program: str) -> str | None:
    """Where a program is, or None."""
    return shutil.which(program)


async def ran(*argv: str, timeout_s: float = 30.0) -> Ran:
    """Run it without a terminal and without input, and return what it said.

    Raises:
        CommandFailed: it did not end in time.
    """
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        return Ran(NOT_FOUND, "", str(error))
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        raise CommandFailed(f"{argv[0]} did not end within {timeout_s:.0f} s", exit_status=124) from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
    return Ran(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


async def handed_over(*argv: str) -> int:
    """Give it this terminal until it ends; its exit code. What it prints on stdout goes to stderr."""
    try:
        process = await asyncio.create_subprocess_exec(*argv, stdout=2)
    except OSError:
        return NOT_FOUND
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            await asyncio.shield(process.wait())
