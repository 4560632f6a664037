"""The programs of this machine that tpuops hands something to, with their versions. Looks for them on PATH only.

gcloud has a check of its own, as it brings an identity with it.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from tpuops.doctor.finding import Check, Finding, broken, ok, warning
from tpuops.doctor.patient import Patient
from tpuops.remote import local

VERSION_S = 10.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A program, how it tells its version, what for, and the Debian package that has it."""

    name: str
    version: tuple[str, ...]
    use: str
    package: str


SSH = Tool("ssh", ("-V",), "`tpuops ssh` and `tpuops attach` hand it the terminal", "openssh-client")
LOCAL = (
    Tool("tmux", ("-V",), "rehearsed machines run their training in it", "tmux"),
    Tool("bwrap", ("--version",), "it keeps rehearsed machines from harming this one", "bubblewrap"),
)


async def tools(patient: Patient) -> Finding:
    """Those that are needed are there. Without a sandbox nothing is rehearsed; without ssh two commands do not work."""
    needed = LOCAL if patient.environment.cloud == "local" else ()
    wanted = (*needed, SSH)
    lacking = [tool for tool in wanted if local.installed(tool.name) is None]
    found = [tool for tool in wanted if tool not in lacking]
    versions = await asyncio.gather(*(_version(tool) for tool in found))
    said = [f"Python {sys.version.split()[0]}", *versions]
    if not lacking:
        return ok("; ".join(said))
    what = f"{', '.join(tool.name for tool in lacking)} cannot be found on this machine"
    evidence = [f"{tool.name}: {tool.use}" for tool in lacking]
    hint = f"`apt-get install {' '.join(tool.package for tool in lacking)}` (Debian, Ubuntu)"
    if any(tool in needed for tool in lacking):
        return broken("tools-missing", what, evidence=evidence, hint=hint)
    return warning("tools-missing", what, evidence=evidence, hint=hint)


async def _version(tool: Tool) -> str:
    """The first line of what it says; OpenSSH says it on stderr."""
    done = await local.ran(tool.name, *tool.version, timeout_s=VERSION_S)
    said = (done.out or done.err).strip().splitlines()
    return said[0].partition(",")[0] if said else tool.name


CHECKS = (Check("tools", tools),)
