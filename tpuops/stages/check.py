"""Check: what must hold before anything is called, started or made, told with the line of the file it comes from.

The file's own rules live in `environment.rules`; here stands what depends on what a command is about to do. Nothing
here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuops.environment import Environment, Finding, refused, secrets
from tpuops.facts import catalogue

ACCELERATOR = ("tpu", "accelerator")


def trainable(environment: Environment) -> None:
    """Calls nothing.

    Raises:
        EnvironmentFileError: `train` and `run` cannot do yet what the file asks for.
        AccessError: a secret cannot be read.
    """
    found = list(_workers(environment))
    if found:
        raise refused(environment, found)
    secrets.resolve(environment)


def _workers(environment: Environment) -> Iterator[Finding]:
    known = catalogue.accelerator(environment.tpu.accelerator)
    if known is not None and not known.single_host:
        yield Finding(
            ACCELERATOR,
            f"{known.type} has {known.workers} workers; training on more than one is not built yet",
            "for training take a type with one worker, such as v3-8; `plan`, `up`, `status` and `down` work with this",
        )
