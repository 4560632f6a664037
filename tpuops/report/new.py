"""A new environment as people and scripts read it: what was made, what it is, what to type next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpuops.environment.new import Wish
from tpuops.environment.writing import Written


def document(wish: Wish, made: Written, known_from: Mapping[str, str], near: Sequence[str]) -> dict[str, Any]:
    """What `--json` prints; `known_from` says of answers that nobody gave where they come from.

    `near`: grants that other files here list, and this one does not.
    """
    unused = [f"other environments here have free quota ({each}); `--grant {each}` would list it" for each in near]
    return {
        "environment": wish.name,
        "file": str(made.file),
        "folder": None if made.project is None else str(made.project),
        "cloud": wish.cloud,
        "project": wish.project,
        "zone": wish.zone,
        "accelerator": wish.accelerator,
        "runtime": made.composed.runtime,
        "provisioning": wish.provisioning,
        "granted": made.composed.granted,
        "usd_per_hour": made.composed.usd_per_hour,
        "price": made.composed.price,
        "notes": [*made.composed.notes, *unused],
        "known_from": {name: why for name, why in known_from.items() if why and name != "grant"},
    }


def made(document: Mapping[str, Any], here: Path) -> str:
    """The same in words."""
    lines = [f"made {_shown(document['file'], here)}: {document['accelerator']} in {document['zone']}"]
    if document["folder"]:
        lines.append(f"made {_shown(document['folder'], here)}: the program to train")
    lines.append(f"project {document['project']}, runtime {document['runtime']}, {document['provisioning']}")
    lines += [f"  {name}: from {why}" for name, why in document["known_from"].items()]
    lines.append(f"{document['price']}, beside VM and bucket")
    return "\n".join(lines + [f"note: {note}" for note in document["notes"]])


def steps(name: str) -> list[tuple[str, str]]:
    """What to type next."""
    return [
        (f"tpuops doctor --env {name}", "checks everything that it needs, and says what mends it (--fix)"),
        (f"tpuops up --env {name}", "provisions it"),
        (f"tpuops rehearse --env {name}", "tries it whole on this machine, at no cost"),
    ]


def _shown(path: str, here: Path) -> str:
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
