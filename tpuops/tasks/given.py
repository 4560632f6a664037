"""What env.new can be given on the command line, and what each of it means. Asks nothing, decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Given:
    """The flags, as they were typed; empty where nothing was."""

    name: str
    project: str = ""
    accelerator: str = ""
    zone: str = ""
    framework: str = ""
    provisioning: str = ""
    grant: Any = None
    allow_paid: bool = False
    vm: str = ""
    owner: str = ""
    template: str = ""
    source: str = ""
    command: str = ""


HELP = {
    "name": "what it is called, and its file: lower-case letters, digits and -",
    "project": "who pays; left out: the project of your Google login, or gcloud's",
    "accelerator": "the TPU's type, such as v3-8, v5litepod-8 or v6e-8",
    "zone": "where it stands; left out: the grant's zone, or gcloud's where it has the type",
    "framework": "jax (default), pytorch or tensorflow: decides the machine image",
    "provisioning": "on-demand (default), or spot",
    "grant": "free research quota as TYPE:ZONE:CHIPS or TYPE:ZONE:CHIPS:spot; may be given several times",
    "allow_paid": "take and pay for a TPU outside the grants",
    "vm": "the machine type beside the TPU (default e2-small), or none",
    "owner": "user (default): everybody has their own; team: one for all with this file",
    "template": "digits: copy this example project and train it",
    "source": "the folder of your training program",
    "command": "how it is started in that folder (default: python3 train.py)",
}
