"""The generated clients inside gcloud, which know every published message type, at the disposal of a test."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tpuops import redirect

SIDE = Path(__file__).with_name("sdk_side.py")


class Sdk:
    """A process of gcloud's Python; close it. Fails where gcloud is missing."""

    def __init__(self, url: str) -> None:
        gcloud = shutil.which("gcloud")
        assert gcloud, "gcloud is missing"
        root = Path(gcloud).resolve().parents[1]
        bundled = root / "platform/bundledpythonunix/bin/python3"
        python = str(bundled) if bundled.exists() else str(shutil.which("python3"))
        command = [python, "-S", str(SIDE), str(root / "lib"), url.rpartition("/")[2]]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={"NO_PROXY": "127.0.0.1"})
        self._url = url

    def __call__(self, client: str, method: str, upload: bytes | None = None, **request: Any) -> Any:
        """The reply of `client` ("oslogin/v1") to a method ("users.GetLoginProfile"). An error fails, and so does a
        reply with anything in it that is in no published message."""
        api = client.partition("/")[0]
        order = {"client": client, "url": self._url + redirect.SERVED[api], "method": method, "request": request}
        if upload is not None:
            order["upload"] = base64.b64encode(upload).decode()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or '{"error": "it died"}')
        assert "error" not in answer, (client, method, answer)
        assert answer["unknown"] == [], (client, method, answer)
        return answer["reply"]

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=20)
