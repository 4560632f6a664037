"""Access tokens: handed out for service-account assertions, refresh tokens and machines; described by tokeninfo.

Imitated: assertions are read, not verified, and every token is good for every API until IAM is enforced.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call, Scene
from tpuops.localcloud.core.world import Document

KIND = "token"
LIFETIME_S = 3600
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
USER = "local@tpuops.invalid"
USER_SCOPES = (
    "openid",
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/cloud-platform",
)


def token(call: Call) -> Answer:
    """POST /token, form-encoded as OAuth says."""
    form = {name: values[0] for name, values in parse_qs(call.request.body.decode("utf-8", "replace")).items()}
    grant = form.get("grant_type", "")
    if grant == "refresh_token":
        return _answer(issue(call.scene, USER, form.get("scope", "").split() or USER_SCOPES))
    if grant == JWT_BEARER:
        claims = _claims(form.get("assertion", ""))
        return _answer(issue(call.scene, str(claims.get("iss", "")), str(claims.get("scope", "")).split()))
    raise refuse("oauth.grant", grant=grant)


def tokeninfo(call: Call) -> Answer:
    """GET /tokeninfo?access_token=T: what a token is good for (google-cloud.md 5.4)."""
    found = call.world.get(KIND, call.query.get("access_token", ""))
    if found is None or found["expires"] <= call.now:
        raise refuse("oauth.token")
    return {
        "azp": "local",
        "aud": "local",
        "scope": " ".join(found["scopes"]),
        "exp": str(int(found["expires"])),
        "expires_in": str(int(found["expires"] - call.now)),
        "email": found["email"],
        "email_verified": "true",
        "access_type": "offline",
    }


def issue(scene: Scene, email: str, scopes: Sequence[str]) -> Document:
    """A new token; dead ones are swept out on the way."""
    for key, old in scene.world.items(KIND):
        if old["expires"] <= scene.now:
            scene.world.drop(KIND, key)
    name = f"ya29.local-{scene.draw.hex(48)}"
    document = {"token": name, "email": email, "scopes": list(scopes), "issued": scene.now}
    return scene.world.put(KIND, name, {**document, "expires": scene.now + LIFETIME_S})


def _answer(issued: Document) -> Document:
    return {
        "access_token": issued["token"],
        "expires_in": LIFETIME_S,
        "token_type": "Bearer",
        "scope": " ".join(issued["scopes"]),
    }


def _claims(assertion: str) -> dict[str, Any]:
    parts = assertion.split(".")
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(payload)
    except (IndexError, binascii.Error, ValueError) as problem:
        raise refuse("oauth.token") from problem
    return claims if isinstance(claims, dict) else {}
