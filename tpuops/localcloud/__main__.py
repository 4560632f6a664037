"""`python -m tpuops.localcloud serve|coverage|key`: the embedded cloud's command line. Starts one server, or prints."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tpuops.localcloud import coverage, key_files
from tpuops.localcloud.core.profile import PROFILES
from tpuops.localcloud.core.script import BadScript
from tpuops.localcloud.faults import read_profile, read_script
from tpuops.localcloud.sandbox import SandboxMissing, check_sandbox
from tpuops.localcloud.server import InUse, Options, lock, serve

REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; 2 where it cannot begin, with one line saying why."""
    given = _parser().parse_args(arguments)
    if given.command == "coverage":
        sys.stdout.write(coverage.table())
        return 0
    if given.command == "key":
        return _key(given.state, given.email)
    try:
        options = Options(
            state=given.state.resolve(),
            seed=given.seed,
            port=given.port,
            profile=read_profile(given.profile),
            machines=given.machines,
            faults=read_script(given.faults) if given.faults else None,
        )
        if options.machines:
            check_sandbox()
        lock(options.state)
        asyncio.run(serve(options))
    except SandboxMissing as problem:
        return _refuse(f"{problem.message}\nhint: {problem.hint}")
    except (InUse, BadScript, ValueError, OSError) as problem:
        return _refuse(str(problem))
    return 0


def _key(state: Path, email: str) -> int:
    try:
        sys.stdout.write(key_files.key_file(state, email))
    except (OSError, ValueError) as problem:
        return _refuse(f"no embedded cloud serves {state}: {problem}")
    return 0


def _refuse(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tpuops.localcloud")
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("coverage", help="print the methods that are served, as Markdown")
    key = commands.add_parser("key", help="print a service account's key file, good at the cloud that serves --state")
    key.add_argument("--state", type=Path, required=True, help="the running cloud's folder")
    key.add_argument("--email", required=True, help="whose key: NAME@PROJECT.iam.gserviceaccount.com")
    serving = commands.add_parser("serve", help="serve until SIGTERM")
    serving.add_argument("--state", type=Path, required=True, help="folder that holds everything; made where missing")
    serving.add_argument("--faults", type=Path, help="fault script, YAML or JSON")
    serving.add_argument("--seed", type=int, help="of every invented id; random where left out")
    serving.add_argument("--port", type=int, default=0, help="0: the one of the last time, or any")
    names = ", ".join(sorted(PROFILES))
    serving.add_argument("--profile", default="instant", help=f"latencies and strictness: {names}, or a YAML file")
    serving.add_argument(
        "--no-machines", dest="machines", action="store_false", help="API objects only: no machine boots"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
