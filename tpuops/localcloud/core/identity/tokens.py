"""Access tokens: handed out for service-account assertions, refresh tokens and machines; described by tokeninfo.

Imitated: an account without a registered key is believed, and every token is good for every API until access.py is told
to enforce. A refresh token is the user's, unless `logins` of `POST /_cloud/access` says whose it is, what it may, or
how it is refused: {TOKEN: {email, scopes, error, description, subtype}}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from tpuops.localcloud.core.identity import signatures
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call, Scene
from tpuops.localcloud.core.wire import json_reply
from tpuops.localcloud.core.world import Document, World

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
        return _refreshed(call, form)
    if grant == JWT_BEARER:
        assertion = form.get("assertion", "")
        claims = _claims(assertion)
        if not signatures.is_genuine(call.world, assertion, str(claims.get("iss", ""))):
            raise refuse("oauth.signature")
        return _answer(issue(call.scene, str(claims.get("iss", "")), str(claims.get("scope", "")).split()))
    raise refuse("oauth.grant", grant=grant)


def tokeninfo(call: Call) -> Answer:
    """GET /tokeninfo?access_token=T, or with the token as a bearer: what it is good for (google-cloud.md 5.4)."""
    brought = call.request.headers.get("authorization", "").partition(" ")[2].strip()
    found = call.world.get(KIND, call.query.get("access_token", "") or brought)
    if found is None or found["expires"] <= call.now:
        raise refuse("oauth.token")
    shown = {
        "azp": "local",
        "aud": "local",
        "scope": " ".join(found["scopes"]),
        "exp": str(int(found["expires"])),
        "expires_in": str(int(found["expires"] - call.now)),
        "access_type": "offline",
    }
    if found["email"].startswith("principal:"):
        return shown  # a federated token has no address (google-cloud.md 5.10)
    return {**shown, "email": found["email"], "email_verified": "true"}


def _refreshed(call: Call, form: dict[str, str]) -> Answer:
    """A token for a refresh token. Scopes that were never granted are refused, not left out, as Google does it."""
    rules = call.world.get("cloud", "access") or {}
    login = rules.get("logins", {}).get(form.get("refresh_token", ""), {})
    if login.get("error"):
        said = {"error": login["error"], "error_description": login.get("description", "Bad Request")}
        return json_reply({**said, **({"error_subtype": login["subtype"]} if login.get("subtype") else {})}, 400)
    granted = login.get("scopes") or rules.get("user_scopes") or USER_SCOPES
    asked = form.get("scope", "").split()
    if not set(asked) <= set(granted):
        raise refuse("oauth.scope")
    return _answer(issue(call.scene, login.get("email", USER), asked or granted))


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


def bearer(world: World, token: str, now: float) -> tuple[str, Sequence[str]] | None:
    """Whose token it is and what it is good for; None where it is nobody's, or dead.

    Google's libraries send an account's own signed assertion as a token too; the cloud's path key is the user's token.
    """
    issued = world.get(KIND, token)
    if issued is not None:
        return (issued["email"], issued["scopes"]) if issued["expires"] > now else None
    endpoint = world.get("cloud", "endpoint") or {}
    if endpoint.get("key") == token:
        return USER, (world.get("cloud", "access") or {}).get("user_scopes") or USER_SCOPES
    try:
        said = signatures.claims(token)
    except ValueError:
        return None
    email = str(said.get("iss", ""))
    alive = float(said.get("exp", 0)) > now and signatures.is_genuine(world, token, email)
    return (email, str(said.get("scope", "")).split() or USER_SCOPES) if alive else None


def _claims(assertion: str) -> dict[str, Any]:
    try:
        return signatures.claims(assertion)
    except ValueError as problem:
        raise refuse("oauth.token") from problem
