"""Signed assertions of service accounts: what they claim, and whether a key that is known signed them.

The private halves never come here: `python -m tpuops.localcloud key` makes a pair and registers the public one.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import World

KIND = "iam.key"


def register(call: Call) -> Answer:
    """POST /_cloud/keys {email, key_id, public_key}: from now on this account's assertions need one of its keys."""
    body = call.body()
    if not all(body.get(field) for field in ("email", "key_id", "public_key")):
        raise refuse("cloud.argument", problem="a key has `email`, `key_id` and `public_key`")
    kept = {field: str(body[field]) for field in ("email", "key_id", "public_key")}
    return call.world.put(KIND, f"{kept['email']}/{kept['key_id']}", kept)


def claims(assertion: str) -> dict[str, Any]:
    """What an assertion says, unverified. Raises ValueError where it is none."""
    return _decoded(assertion, 1)


def is_genuine(world: World, assertion: str, email: str) -> bool:
    """Whether one of the account's keys signed it; an account without keys is believed."""
    keys = {kept["key_id"]: kept for _, kept in world.items(KIND, f"{email}/")}
    if not keys:
        return True
    try:
        kept = keys[str(_decoded(assertion, 0).get("kid", ""))]
        signed, _, signature = assertion.rpartition(".")
        public = load_pem_public_key(kept["public_key"].encode())
        assert isinstance(public, RSAPublicKey)
        public.verify(_bytes(signature), signed.encode(), PKCS1v15(), hashes.SHA256())
    except (KeyError, ValueError, InvalidSignature):
        return False
    return True


def _decoded(assertion: str, part: int) -> dict[str, Any]:
    parts = assertion.split(".")
    if len(parts) != 3:
        raise ValueError("not a signed assertion")
    document = json.loads(_bytes(parts[part]))
    if not isinstance(document, dict):
        raise ValueError("an assertion holds an object")
    return document


def _bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as problem:
        raise ValueError(str(problem)) from problem
