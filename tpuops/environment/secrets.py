"""Secrets by reference: the file names where each is, and only a command about to train reads it.

What is read goes over SSH to the machine and nowhere else. No message holds a value. Here stands what needs no call;
Secret Manager is asked by `stages.secrets`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tpuops.environment.load import refused
from tpuops.environment.model import Environment, Secret
from tpuops.environment.problems import Finding
from tpuops.errors import AccessError

LARGEST_BYTES = 64 * 1024


def wanted(environment: Environment) -> Iterator[tuple[str, Secret]]:
    """The secrets that training on this cloud needs.

    On the embedded cloud a secret that `rehearsal.env` gives another value is not needed, and not read.
    """
    replaced = environment.rehearsal.env if environment.cloud == "local" else {}
    for name, secret in environment.train.secrets.items():
        if name not in replaced:
            yield name, secret


def here(
    environment: Environment, variables: Mapping[str, str] | None = None
) -> tuple[dict[str, str], tuple[Finding, ...]]:
    """The values that this machine holds, by the name that the training program knows them by, and what is missing."""
    found, missing = {}, []
    for name, secret in wanted(environment):
        if secret.secret_manager is not None:
            continue
        try:
            found[name] = _value(environment, secret, os.environ if variables is None else variables)
        except (OSError, ValueError, KeyError) as error:
            missing.append(Finding(("train", "secrets", name), _why(secret, error), _hint(secret)))
    return found, tuple(missing)


def unread(environment: Environment, missing: Iterable[Finding]) -> AccessError:
    """The error for secrets that cannot be read, each with its line in the file."""
    lines, count = refused(environment, missing).evidence, len(tuple(missing))
    return AccessError(f"{count} secret(s) cannot be read", evidence=lines, hint="nothing was made or changed")


def text(data: bytes) -> str:
    """A secret's bytes as the text of an environment variable; the last line end of a file does not count.

    Raises:
        ValueError: they can be none.
    """
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"is larger than {LARGEST_BYTES // 1024} KiB")
    if b"\0" in data:
        raise ValueError("holds a zero byte, which no environment variable can")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None


def _value(environment: Environment, secret: Secret, variables: Mapping[str, str]) -> str:
    if secret.env is not None:
        return variables[secret.env]
    path = environment.path.parent / Path(secret.file or "").expanduser()
    with path.open("rb") as file:
        return text(file.read(LARGEST_BYTES + 1))


def _why(secret: Secret, error: Exception) -> str:
    if secret.env is not None:
        return f"the environment variable {secret.env} is not set here"
    said = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot read {secret.file}: {said}"


def _hint(secret: Secret) -> str:
    return f"export {secret.env}=..." if secret.env is not None else "the path is relative to this file's folder"
