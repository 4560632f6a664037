"""The metadata scripts a machine runs as root: `startup-script` at every boot, `shutdown-script` when it is stopped.

As on the real thing their output is kept and their failure keeps nobody from logging in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

_LOGS = Path("/var/log")
_RUN = Path("/run")


async def run_script(name: str, metadata: Mapping[str, str], environment: Mapping[str, str]) -> int | None:
    """Run the metadata script `name`, its output in `/var/log/<name>.log`; its exit status, None where there is none.

    Cancelling kills the script itself; what it started in the background stays, as under the real runner.
    """
    text = metadata.get(name, "")
    if not text.strip():
        return None
    script = _RUN / name
    script.write_text(text)
    script.chmod(0o700)
    argv = (str(script),) if text.startswith("#!") else ("/bin/bash", str(script))
    return await _logged(name, argv, environment)


async def _logged(name: str, argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    with (_LOGS / f"{name}.log").open("ab", buffering=0) as log:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        except OSError as failure:
            log.write(f"{name} could not start: {failure}\n".encode())
            return 127
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            raise
        log.write(f"{name} exit status {status}\n".encode())
        return status
