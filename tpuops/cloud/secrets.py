"""Secret Manager: one call, which hands a value out. Nothing here keeps it, shows it, or lists what there is."""

from __future__ import annotations

import base64

from tpuops.cloud.calls import Caller
from tpuops.cloud.rest import Rest
from tpuops.cloud.retry import repeatedly
from tpuops.errors import Transient

METHOD = "secretmanager.versions.access"


class SecretManager:
    """`Vault` over one set of endpoints."""

    def __init__(self, rest: Rest, caller: Caller) -> None:
        self._rest, self._caller = rest, caller

    async def secret(self, version: str) -> bytes:
        """The bytes of `projects/P/secrets/S/versions/V`, checked against Google's checksum."""
        return await repeatedly(
            lambda: self._caller.ask(METHOD, version, lambda: self._access(version)), self._caller.clock
        )

    def _access(self, version: str) -> bytes:
        import google_crc32c  # noqa: PLC0415 - few files name such a secret

        payload = self._rest.json("secretmanager", "GET", f"/v1/{version}:access")["payload"]
        data = base64.b64decode(payload["data"])
        sent = payload.get("dataCrc32c")
        if sent is not None and int(sent) != google_crc32c.value(data):
            raise Transient("what came is not what was kept", method=METHOD, resource=version)
        return data
