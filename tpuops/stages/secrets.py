"""Secrets: the values of what the file refers to, read once a command and before anything is made for them.

Whoever runs the command reads them, with their own login; a machine gets the values over SSH and no permission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tpuops.cloud.port import Vault
from tpuops.environment import Environment, Finding, secrets
from tpuops.errors import AccessError, NotFound, Refused


class Secrets:
    """The values of one environment's secrets, kept in memory: every attempt of a command gets the same ones."""

    def __init__(self, environment: Environment, vault: Vault) -> None:
        self._environment, self._vault = environment, vault
        self._values: dict[str, str] | None = None

    async def values(self) -> Mapping[str, str]:
        """Each value by the name that the training program knows it by.

        Raises:
            AccessError: with every secret that cannot be read, and its line in the file.
        """
        if self._values is None:
            self._values = await self._read()
        return self._values

    async def _read(self) -> dict[str, str]:
        found, missing = secrets.here(self._environment)
        stored = {
            name: secret.secret_manager
            for name, secret in secrets.wanted(self._environment)
            if secret.secret_manager is not None
        }
        answers = await asyncio.gather(*(self._stored(name, version) for name, version in stored.items()))
        missing += tuple(answer for answer in answers if isinstance(answer, Finding))
        if missing:
            raise secrets.unread(self._environment, missing)
        return found | {name: str(answer) for name, answer in zip(stored, answers, strict=True)}

    async def _stored(self, name: str, version: str) -> str | Finding:
        """The value, or why there is none."""
        here = ("train", "secrets", name, "secret_manager")
        try:
            return secrets.text(await self._vault.secret(version))
        except NotFound as error:
            return Finding(here, error.message, self._absent(name, version))
        except Refused as error:
            return Finding(here, error.message, "enable the version, or name another")
        except AccessError as error:
            why = ": ".join((error.message, *error.evidence[:1]))
            denied = "secretmanager.versions.access" in why
            hint = "ask for roles/secretmanager.secretAccessor on that secret, for whoever runs this command"
            return Finding(here, why, hint if denied else error.hint)
        except ValueError as error:
            return Finding(here, f"{version} {error}", "a secret is a text of at most 64 KiB")

    def _absent(self, name: str, version: str) -> str:
        _, project, _, secret, _, _ = version.split("/")
        if self._environment.cloud == "local":
            return f"`rehearsal.env: {{{name}: ...}}` gives it another value on the embedded cloud"
        return f"`gcloud secrets versions list {secret} --project={project}` shows what is there"
