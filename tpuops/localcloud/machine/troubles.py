"""What a fault does to a program of the machine: hang it, or leave its accelerator held by a process it left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from .processes import newest

_HANG = Path("/run/tpu/hang")
_LOCK = "/tmp/libtpu_lockfile"  # noqa: S108 - libtpu's own fixed path
_HEARD_S = 1.0
_POLL_S = 0.02
_HOLD = (
    f"import fcntl, time; f = open({_LOCK!r}, 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(1e9)"
)


async def hang(match: str) -> dict[str, object]:
    """The newest process whose command line contains `match` makes no step any more, and does not end either.

    A program with a device hangs as in a call that never returns: it hears no SIGTERM that it handles itself, and
    still dumps its stacks. Any other is stopped.
    """
    pid = newest(match)
    if pid is None:
        return {"hung": None}
    _HANG.parent.mkdir(parents=True, exist_ok=True)
    fresh = _HANG.with_suffix(".new")
    fresh.write_text(str(pid))
    fresh.rename(_HANG)
    for _ in range(int(_HEARD_S / _POLL_S)):
        await asyncio.sleep(_POLL_S)
        if not _HANG.exists():
            return {"hung": pid, "how": "call"}
    _HANG.unlink(missing_ok=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        return {"hung": pid, "how": "stopped"}
    return {"hung": None}


async def hold(match: str) -> tuple[dict[str, object], asyncio.subprocess.Process | None]:
    """The newest process that matches dies and leaves a child that keeps the accelerator: libtpu's lock is real."""
    pid = newest(match)
    if pid is None:
        return {"held": None}, None
    words = (entry.partition(b"=") for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if entry)
    environment = {name: value for name, _, value in words}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", _HOLD, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env=environment, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    await child.stdout.readline()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return {"held": child.pid, "killed": pid}, child
