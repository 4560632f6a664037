"""Through Identity-Aware Proxy: gcloud's own tunnel as the program that carries a connection (google-cloud.md 6.7).

Builds argv and, for a cloud elsewhere than at Google, the two private files that send gcloud there. Starts nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tpuops.errors import Unreachable
from tpuops.remote.files import write_private
from tpuops.resources import Place

_THERE = '. "$0" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Tunnel:
    """How gcloud is called. `variables` is a file of shell lines to read first, `flags` one of gcloud's own flags.

    Both hold what no process list may show; without them gcloud goes to Google.
    """

    variables: Path | None = None
    flags: Path | None = None

    def argv(self, place: Place, instance: str, port: int) -> tuple[str, ...]:
        """The program whose standard input and output are a connection to `port` of an instance.

        Raises `Unreachable` where the instance's name is not known.
        """
        if not instance:
            raise Unreachable(
                "the machine has not published its name, and Identity-Aware Proxy knows it by no other",
                hint="one that has just started needs a minute; else guest attributes may be forbidden by policy",
            )
        where = (f"--project={place.project}", f"--zone={place.zone}", "--verbosity=error")
        words: tuple[str, ...] = (
            "gcloud",
            "compute",
            "start-iap-tunnel",
            instance,
            str(port),
            "--listen-on-stdin",
            *where,
        )
        if self.flags is not None:
            words = (*words, f"--flags-file={self.flags}")
        return (*self.before, *words)

    @property
    def before(self) -> tuple[str, ...]:
        """What stands before `gcloud`: the shell that reads the variables, and becomes it."""
        return () if self.variables is None else ("sh", "-c", _THERE, str(self.variables))


def elsewhere(folder: Path, exports: str, url: str) -> Tunnel:
    """A tunnel to another place than Google: `exports` are shell lines, `url` is the tunnel's own end there."""
    variables, flags = folder / "gcloud.sh", folder / "gcloud.flags.json"
    write_private(variables, exports)
    write_private(flags, json.dumps({"--iap-tunnel-url-override": url}) + "\n")  # JSON is YAML
    return Tunnel(variables.absolute(), flags.absolute())
