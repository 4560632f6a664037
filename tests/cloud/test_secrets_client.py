"""Secret Manager's one call: what comes is checked, what is refused becomes one of our errors."""

from __future__ import annotations

import base64

import google_crc32c
import pytest

from tests.cloud.conftest import Canned
from tpuops.cloud.calls import Call
from tpuops.cloud.client import GoogleCloud
from tpuops.errors import AccessError, NotFound, Refused, Transient

pytestmark = [pytest.mark.usefixtures("quick")]

VERSION = "projects/p/secrets/s/versions/latest"
CALL = f"GET /secretmanager/v1/{VERSION}:access"


def reply(data: bytes, **more: str) -> tuple[int, dict]:
    return 200, {"name": VERSION, "payload": {"data": base64.b64encode(data).decode(), **more}}


def checked(data: bytes) -> tuple[int, dict]:
    return reply(data, dataCrc32c=str(google_crc32c.value(data)))


def refusal(code: int, status: str, message: str) -> tuple[int, dict]:
    return code, {"error": {"code": code, "status": status, "message": message}}


async def test_the_bytes_come_and_no_call_that_is_shown_holds_them(
    canned: Canned, cloud: GoogleCloud, calls: list[Call]
) -> None:
    canned.say(CALL, checked(b"hush"))
    assert await cloud.vault().secret(VERSION) == b"hush"
    assert [(call.method, call.resource, call.code) for call in calls] == [
        ("secretmanager.versions.access", VERSION, 200)
    ]


async def test_bytes_that_do_not_match_their_checksum_are_asked_for_again(canned: Canned, cloud: GoogleCloud) -> None:
    canned.say(CALL, reply(b"hosh", dataCrc32c=checked(b"hush")[1]["payload"]["dataCrc32c"]), checked(b"hush"))
    assert await cloud.vault().secret(VERSION) == b"hush"
    assert canned.asked("GET", ":access") == 2
    canned.say(CALL, reply(b"hosh", dataCrc32c="1"))
    with pytest.raises(Transient, match="not what was kept"):
        await cloud.vault().secret(VERSION)


async def test_a_checksum_that_does_not_come_is_not_missed(canned: Canned, cloud: GoogleCloud) -> None:
    canned.say(CALL, reply(b"hush"))
    assert await cloud.vault().secret(VERSION) == b"hush"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(404, "NOT_FOUND", "Secret [projects/1/secrets/s] not found or has no versions."), NotFound),
        (refusal(400, "FAILED_PRECONDITION", "Secret Version [...] is in DISABLED state."), Refused),
        (
            refusal(403, "PERMISSION_DENIED", "Permission 'secretmanager.versions.access' denied for resource 'x'"),
            AccessError,
        ),
    ],
)
async def test_a_refusal_is_not_repeated(canned: Canned, cloud: GoogleCloud, answer: tuple, error: type) -> None:
    canned.say(CALL, answer)
    with pytest.raises(error):
        await cloud.vault().secret(VERSION)
    assert canned.asked("GET", ":access") == 1
