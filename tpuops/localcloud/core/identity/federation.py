"""Identities that are exchanged for others: somebody else's tokens (STS) and service accounts (IAM Credentials).

Imitated: any subject token is believed unless it is a JWT that has expired. `pools` of `POST /_cloud/access` names the
only audiences there are.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import parse_qs

from tpuops.localcloud.core.identity import access, signatures, tokens
from tpuops.localcloud.core.refusals import refuse
from tpuops.localcloud.core.scene import Answer, Call

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ISSUED = "urn:ietf:params:oauth:token-type:access_token"
IMPERSONATE = "iam.serviceAccounts.getAccessToken"


def exchange(call: Call) -> Answer:
    """POST /sts/v1/token, form-encoded as RFC 8693 says."""
    form = {name: values[0] for name, values in parse_qs(call.request.body.decode("utf-8", "replace")).items()}
    if form.get("grant_type") != EXCHANGE:
        raise refuse("oauth.grant", grant=form.get("grant_type", ""))
    audience = form.get("audience", "")
    pools = access.rules(call.world).get("pools")
    if pools is not None and audience not in pools:
        raise refuse("oauth.target")
    subject = form.get("subject_token", "")
    if _is_stale(subject, call.now):
        raise refuse("oauth.stale")
    pool = re.sub(r"/providers/.*", "", audience)
    principal = f"principal:{pool}/subject/{_subject(subject)}"
    issued = tokens.issue(call.scene, principal, form.get("scope", "").split())
    shown = {"access_token": issued["token"], "issued_token_type": ISSUED, "token_type": "Bearer"}
    return {**shown, "expires_in": tokens.LIFETIME_S}


def generate(call: Call) -> Answer:
    """POST v1/projects/-/serviceAccounts/E:generateAccessToken."""
    email, body = call.params["email"], call.body()
    project = email.partition("@")[2].partition(".")[0]
    access.require(call, IMPERSONATE, project, f"projects/-/serviceAccounts/{email}")
    issued = tokens.issue(call.scene, email, [str(scope) for scope in body.get("scope", [])])
    ends = datetime.fromtimestamp(issued["expires"], UTC)
    return {"accessToken": issued["token"], "expireTime": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}


def _is_stale(token: str, now: float) -> bool:
    try:
        return float(signatures.claims(token).get("exp", now + 1)) <= now
    except ValueError:
        return False


def _subject(token: str) -> str:
    try:
        return str(signatures.claims(token).get("sub", "someone"))
    except ValueError:
        return "someone"
