"""Google's storage client against canned replies: what is sent and understood, what becomes of a lost reply."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from datetime import UTC, datetime

import google_crc32c
import pytest

from tests.cloud.conftest import LOSE
from tests.cloud.documents import BUCKET, LABELS, OBJECT, PRECONDITION
from tpuops.cloud.port import ObjectStat
from tpuops.errors import Conflict, Refused
from tpuops.resources import BucketSpec


async def test_a_bucket_is_made_closed_and_without_soft_delete(canned, cloud):
    canned.say("POST /storage/v1/b", (200, BUCKET))
    made = await cloud.create_bucket(BucketSpec("b", "my-project", "us-central1", LABELS))
    assert (made.location, made.project_number) == ("us-central1", "1234")
    body = json.loads(canned.seen[0].body)
    assert "project=my-project" in canned.seen[0].query
    assert body["location"] == "US-CENTRAL1"
    assert body["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert body["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert str(body["softDeletePolicy"]["retentionDurationSeconds"]) == "0"
    assert body["labels"] == LABELS


async def test_a_bucket_whose_reply_was_lost_is_ours_and_anothers_is_not(canned, cloud):
    taken = {"error": {"code": 409, "message": "you already own it", "errors": [{"reason": "conflict"}]}}
    canned.say("POST /storage/v1/b", LOSE, (409, taken))
    canned.say("GET /storage/v1/b/b", (200, BUCKET))
    assert (await cloud.create_bucket(BucketSpec("b", "my-project", "us-central1", LABELS))).name == "b"
    canned.say("POST /storage/v1/b", (409, taken))
    with pytest.raises(Conflict):
        await cloud.create_bucket(BucketSpec("b", "my-project", "us-central1", LABELS))


async def test_somebody_elses_bucket_is_refused(canned, cloud):
    text = "ann@x.org does not have storage.buckets.get access to the Google Cloud Storage bucket."
    canned.say(
        "GET /storage/v1/b/b", (403, {"error": {"code": 403, "message": text, "errors": [{"reason": "forbidden"}]}})
    )
    with pytest.raises(Refused):
        await cloud.bucket("b")


async def test_an_object_is_read_with_the_servers_own_time(canned, cloud):
    canned.say("GET /download/storage/v1/b/b/o/lease.json", (200, b"{}", {"Content-Type": "application/json"}))
    canned.say("GET /storage/v1/b/b/o/lease.json", (200, OBJECT))
    found = await cloud.store("b").read("lease.json")
    assert found.data == b"{}"
    assert found.stat.generation == 7
    assert abs((datetime.now(UTC) - found.server_now).total_seconds()) < 5


async def test_bytes_that_are_not_what_the_bucket_has_are_asked_for_again(canned, cloud, quick):
    sums = [google_crc32c.value(data).to_bytes(4, "big") for data in (b"other", b"{}")]
    heads = [{"X-Goog-Hash": f"crc32c={base64.b64encode(each).decode()}"} for each in sums]
    canned.say("GET /download/storage/v1/b/b/o/lease.json", *((200, b"{}", head) for head in heads))
    canned.say("GET /storage/v1/b/b/o/lease.json", (200, OBJECT))
    assert (await cloud.store("b").read("lease.json")).data == b"{}"
    assert canned.asked("GET", "/download/") == 2
    canned.say("GET /download/storage/v1/b/b/o/lease.json", *((200, b"{}", head) for head in heads))
    file = io.BytesIO()
    await cloud.store("b").download(ObjectStat("lease.json", 7, 2, "", datetime.now(UTC)), file)
    assert (file.getvalue(), canned.asked("GET", "/download/")) == (b"{}", 4)


async def test_one_question_is_one_request(canned, cloud):
    canned.say("POST /upload/storage/v1/b/b/o", (200, OBJECT))
    await cloud.store("b").write("lease.json", b"{}", if_generation=0)
    await asyncio.sleep(0.1)
    assert [seen.verb for seen in canned.seen] == ["POST"]


async def test_a_conditional_write_says_which_generation_it_wants(canned, cloud):
    canned.say("POST /upload/storage/v1/b/b/o", (200, OBJECT))
    stat = await cloud.store("b").write("lease.json", b"{}", if_generation=0)
    assert (stat.generation, stat.size) == (7, 2)
    assert "ifGenerationMatch=0" in canned.seen[0].query


async def test_a_write_over_somebody_elses_generation_is_a_conflict(canned, cloud):
    canned.say("POST /upload/", (412, PRECONDITION))
    with pytest.raises(Conflict):
        await cloud.store("b").write("lease.json", b"{}", if_generation=0)
    assert canned.asked("POST", "/upload/") == 1


async def test_a_write_whose_reply_was_lost_is_recognised_by_its_content(canned, cloud):
    canned.say("POST /upload/", LOSE, (412, PRECONDITION))
    canned.say("GET /download/storage/v1/b/b/o/lease.json", (200, b"{}"))
    canned.say("GET /storage/v1/b/b/o/lease.json", (200, OBJECT))
    assert (await cloud.store("b").write("lease.json", b"{}", if_generation=0)).generation == 7
    canned.say("POST /upload/", LOSE, (412, PRECONDITION))
    with pytest.raises(Conflict, match="somebody else"):
        await cloud.store("b").write("lease.json", b"other", if_generation=0)


async def test_deleting_is_done_when_the_object_is_gone(canned, cloud):
    await cloud.store("b").delete("x", if_generation=3)
    canned.say("DELETE /storage/v1/b/b/o/x", (412, PRECONDITION))
    with pytest.raises(Conflict):
        await cloud.store("b").delete("x", if_generation=3)
    canned.say("DELETE /storage/v1/b/b/o/x", LOSE, (412, PRECONDITION))
    await cloud.store("b").delete("x", if_generation=3)


async def test_a_listing_reads_every_page_by_name(canned, cloud):
    canned.say("GET pageToken=t", (200, {"items": [{**OBJECT, "name": "a/1"}]}))
    canned.say("GET /storage/v1/b/b/o", (200, {"items": [{**OBJECT, "name": "a/2"}], "nextPageToken": "t"}))
    assert [stat.name for stat in await cloud.store("b").list("a/")] == ["a/1", "a/2"]
    canned.say("GET /storage/v1/b/c/o", (200, {}))
    assert await cloud.store("c").list("a/") == ()
