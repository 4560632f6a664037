"""Through Identity-Aware Proxy: gcloud's own tunnel as the program that carries a connection (google-cloud.md 6.7).

Builds argv and, for a cloud elsewhere than at Google, the two private files that send gcloud there. Starts nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tpuops.errors import AccessError, Unreachable
from tpuops.remote.files import write_private
from tpuops.resources import Place

_THERE = '. "$0" && exec "$@"'
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Tunnel:
    """How gcloud is called. `variables` is a file of shell lines to read first, `flags` one of gcloud's own flags.

    Both hold what no process list may show; without them gcloud goes to Google.
    """

    variables: Path | None = None
    flags: Path | None = None

    def argv(self, place: Place, instance: str, port: int) -> tuple[str, ...]:
        """The program whose standard input and output are a connection to `port` of an instance.

        Raises `Unreachable` where the instance's name is not known, `AccessError` where it is no name: machines tell
        theirs themselves, and gcloud must not take it for an option.
        """
        if not instance:
            raise Unreachable(
                "the machine has not published its name, and Identity-Aware Proxy knows it by no other",
                hint="one that has just started needs a minute; where policy forbids guest attributes, "
                "it must be able to write to the home bucket",
            )
        if not _NAME.fullmatch(instance):
            raise AccessError(
                f"{instance[:80]!r} is no name that an instance can have, and the machine says that it is its own",
                hint="look who may write the machine's guest attributes and the home bucket, and make the machine anew",
                kind="ssh-instance-malformed",
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
