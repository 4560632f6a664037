"""Service accounts' key files: a fresh key pair, its public half told to a running cloud, the file as Google gives it.

The file's `token_uri` is the cloud, so that a client that reads it asks nobody else. Keeps no private key itself.
"""

from __future__ import annotations

import json
import secrets
import urllib.request
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

_PATIENCE_S = 10.0


def key_file(state: Path, email: str) -> str:
    """The JSON of a new key for `email`. Raises OSError and ValueError where no cloud serves `state`."""
    url = json.loads((state / "endpoint.json").read_text("utf-8"))["url"]
    pair = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key_id = secrets.token_hex(20)
    public = pair.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _register(url, {"email": email, "key_id": key_id, "public_key": public.decode()})
    private = pair.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    project = email.partition("@")[2].partition(".")[0]
    document = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": key_id,
        "private_key": private.decode(),
        "client_email": email,
        "client_id": str(int(key_id[:16], 16)),
        "auth_uri": f"{url}/auth",
        "token_uri": f"{url}/token",
        "universe_domain": "googleapis.com",
    }
    return json.dumps(document, indent=2) + "\n"


def _register(url: str, key: dict[str, str]) -> None:
    if not url.startswith("http://127.0.0.1:"):
        raise ValueError(f"{url} is not on loopback")
    asked = urllib.request.Request(f"{url}/_cloud/keys", data=json.dumps(key).encode(), method="POST")  # noqa: S310
    with urllib.request.urlopen(asked, timeout=_PATIENCE_S) as reply:  # noqa: S310
        reply.read()
