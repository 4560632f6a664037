"""Storage in virtual time: generations, the four preconditions, listings, uploads in three forms, ranges."""

import json

import pytest

from tests.localcloud.talk import Talk
from tpuops.localcloud.core.profile import REALISTIC


@pytest.fixture(autouse=True)
def _bucket(talk):
    talk.bucket()


def test_a_bucket_belongs_to_the_project_that_made_it(talk):
    again = talk.call("POST", "/storage/v1/b", {"name": "bkt"}, project="local-p")
    theirs = talk.call("POST", "/storage/v1/b", {"name": "bkt"}, project="local-q")
    assert (again[0], theirs[0]) == (409, 409)
    assert "you already own it" in again[1]["error"]["message"]
    assert "not available" in theirs[1]["error"]["message"]
    account = talk.call("GET", "/storage/v1/projects/local-p/serviceAccount")[1]["email_address"]
    number = talk.call("GET", "/storage/v1/b/bkt")[1]["projectNumber"]
    assert account == f"service-{number}@gs-project-accounts.iam.gserviceaccount.com"


def test_only_an_empty_bucket_can_be_deleted(talk):
    talk.put("a", b"1")
    assert talk.call("DELETE", "/storage/v1/b/bkt")[0] == 409
    talk.call("DELETE", talk.object("a"))
    assert talk.call("DELETE", "/storage/v1/b/bkt")[0] == 200
    assert talk.call("GET", "/storage/v1/b/bkt")[0] == 404


def test_generations_rise_with_data_and_metagenerations_with_metadata(talk):
    first = talk.put("a", b"1")[1]
    second = talk.put("a", b"2")[1]
    assert int(second["generation"]) > int(first["generation"])
    assert (second["metageneration"], second["size"]) == ("1", "1")
    changed = talk.call("PATCH", talk.object("a"), {"metadata": {"k": "v"}})[1]
    assert (changed["generation"], changed["metageneration"]) == (second["generation"], "2")
    assert changed["etag"] != second["etag"]


@pytest.mark.parametrize("verb", ["upload", "patch", "delete"])
@pytest.mark.parametrize(
    ("parameter", "right"),
    [
        ("ifGenerationMatch", True),
        ("ifGenerationNotMatch", False),
        ("ifMetagenerationMatch", True),
        ("ifMetagenerationNotMatch", False),
    ],
)
def test_every_precondition_is_kept_on_every_change(talk, verb, parameter, right):
    shown = talk.put("a", b"1")[1]
    value = shown["generation"] if "Generation" in parameter else shown["metageneration"]

    def change(**query):
        if verb == "upload":
            return talk.put("a", b"2", **query)[0]
        return talk.call(verb.upper(), talk.object("a"), {}, **query)[0]

    failing = "999" if right else value
    assert change(**{parameter: failing}) == 412
    assert talk.raw("GET", talk.object("a"), alt="media").body == b"1"
    assert change(**{parameter: value if right else "999"}) in {200, 204}


def test_a_failed_precondition_says_so_in_the_recorded_words(talk):
    talk.put("a", b"1")
    status, reply = talk.put("a", b"2", ifGenerationMatch="0")
    assert status == 412
    assert reply["error"]["errors"][0]["reason"] == "conditionNotMet"
    assert reply["error"]["message"] == "At least one of the pre-conditions you specified did not hold."


def test_what_is_not_there_has_generation_zero(talk):
    assert talk.put("a", b"1", ifGenerationMatch="5")[0] == 412
    assert talk.put("a", b"1", ifGenerationNotMatch="0")[0] == 412
    assert talk.put("a", b"1", ifGenerationMatch="0")[0] == 200
    assert talk.put("a", b"1", ifGenerationMatch="x")[0] == 400


def test_reading_what_has_not_changed_is_304(talk):
    generation = talk.put("a", b"1")[1]["generation"]
    assert talk.raw("GET", talk.object("a"), ifGenerationNotMatch=generation).status == 304
    assert talk.raw("GET", talk.object("a"), ifGenerationMatch="5").status == 412


def test_deleting_what_is_gone_is_404_also_with_a_generation(talk):
    assert talk.call("DELETE", talk.object("a"), ifGenerationMatch="5")[0] == 404
    generation = talk.put("a", b"1")[1]["generation"]
    talk.put("a", b"2")
    assert talk.call("GET", talk.object("a"), generation=generation)[0] == 404


def test_hashes_are_computed_and_given_ones_are_checked(talk):
    shown = talk.put("a", b"hello")[1]
    assert (shown["crc32c"], shown["md5Hash"]) == ("mnG7TA==", "XUFAKrxLKna5cZ2REBfFkg==")
    body = b"--B\r\n\r\n" + json.dumps({"name": "b", "crc32c": "AAAAAA=="}).encode() + b"\r\n--B\r\n\r\nhello\r\n--B--"
    headers = {"content-type": "multipart/related; boundary=B"}
    reply = talk.raw("POST", "/upload/storage/v1/b/bkt/o", body, headers, uploadType="multipart")
    assert reply.status == 400
    assert talk.call("GET", talk.object("b"))[0] == 404


@pytest.mark.parametrize("boundary", ['"=B="', "'=B='", "=B="])
def test_multipart_bytes_arrive_exactly(talk, boundary):
    data = b"\r\n--=B\r\nfrom \x00\xff\r\n"
    mark = b"--=B="
    head = b"\r\nContent-Type: application/json\r\n\r\n" + json.dumps({"name": "x/y", "metadata": {"k": "v"}}).encode()
    body = mark + head + b"\r\n" + mark + b"\r\nContent-Type: text/plain\r\n\r\n" + data + b"\r\n" + mark + b"--\r\n"
    headers = {"content-type": f"multipart/related; boundary={boundary}"}
    reply = talk.raw("POST", "/upload/storage/v1/b/bkt/o", body, headers, uploadType="multipart")
    shown = json.loads(reply.body)
    assert (shown["name"], shown["contentType"], shown["metadata"]) == ("x/y", "text/plain", {"k": "v"})
    media = talk.raw("GET", talk.object("x/y"), alt="media")
    assert media.body == data
    assert media.headers["X-Goog-Hash"] == f"crc32c={shown['crc32c']},md5={shown['md5Hash']}"


@pytest.mark.parametrize(
    ("header", "status", "body", "content_range"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, None, None),
    ],
)
def test_ranges_are_cut_exactly(talk, header, status, body, content_range):
    talk.put("a", b"0123456789")
    reply = talk.raw("GET", talk.object("a"), headers={"range": header}, alt="media")
    assert reply.status == status
    assert body is None or reply.body == body
    assert reply.headers.get("Content-Range") == content_range


def test_a_resumable_upload_goes_on_where_it_broke_off(talk):
    opened = talk.raw(
        "POST", "/upload/storage/v1/b/bkt/o", {"name": "big"}, uploadType="resumable", ifGenerationMatch="0"
    )
    upload = opened.headers["Location"].partition("upload_id=")[2]
    path = "/upload/storage/v1/b/bkt/o"

    def send(content_range, data=b""):
        return talk.raw("PUT", path, data, {"content-range": content_range}, uploadType="resumable", upload_id=upload)

    assert "Range" not in send("bytes */*").headers
    assert send("bytes 0-3/*", b"0123").status == 308
    assert send("bytes */10").headers["Range"] == "bytes=0-3"
    assert send("bytes 2-5/*", b"2345").headers["Range"] == "bytes=0-5"  # sent twice, kept once
    assert send("bytes 8-9/10", b"89").headers["Range"] == "bytes=0-5"  # a gap is not taken
    done = send("bytes 6-9/10", b"6789")
    assert (done.status, json.loads(done.body)["size"]) == (200, "10")
    assert talk.raw("GET", talk.object("big"), alt="media").body == b"0123456789"
    assert send("bytes */10").status == 200  # the answer may be lost: asking again is safe


def test_listing_folds_at_the_delimiter_and_pages(talk):
    for name in ["a/1", "a/2", "a/sub/3", "b", "c/4"]:
        talk.put(name, b"")
    path = "/storage/v1/b/bkt/o"
    top = talk.call("GET", path, delimiter="/")[1]
    assert ([item["name"] for item in top["items"]], top["prefixes"]) == (["b"], ["a/", "c/"])
    below = talk.call("GET", path, prefix="a/", delimiter="/")[1]
    assert ([item["name"] for item in below["items"]], below["prefixes"]) == (["a/1", "a/2"], ["a/sub/"])
    names, token = [], ""
    while True:
        reply = talk.call("GET", path, maxResults="2", pageToken=token)[1]
        names += [item["name"] for item in reply["items"]]
        token = reply.get("nextPageToken", "")
        if not token:
            break
    assert names == ["a/1", "a/2", "a/sub/3", "b", "c/4"]
    assert "items" not in talk.call("GET", path, prefix="zzz")[1]


def test_compose_copy_and_rewrite_make_new_objects(talk):
    talk.put("a", b"1")
    talk.put("b", b"2")
    body = {"sourceObjects": [{"name": "a"}, {"name": "b"}]}
    composed = talk.call("POST", f"{talk.object('ab')}/compose", body)[1]
    assert (composed["componentCount"], "md5Hash" in composed) == (2, False)
    rewritten = talk.call("POST", f"{talk.object('ab')}/rewriteTo/b/bkt/o/c%2Fd", {})[1]
    assert rewritten["done"] is True
    assert talk.call("POST", f"{talk.object('ab')}/copyTo/b/bkt/o/e", {})[0] == 200
    for name in ("ab", "c/d", "e"):
        assert talk.raw("GET", talk.object(name), alt="media").body == b"12"


def test_a_composed_object_has_hashes_of_its_own_whatever_the_request_says(talk):
    shown = talk.put("a", b"1")[1]
    body = {"sourceObjects": [{"name": "a"}, {"name": "a"}], "destination": {"crc32c": shown["crc32c"]}}
    status, composed = talk.call("POST", f"{talk.object('b')}/compose", body)
    assert (status, composed["crc32c"] != shown["crc32c"]) == (200, True)


def test_bytes_are_forgotten_with_the_last_object_that_holds_them(talk):
    talk.call("PATCH", "/storage/v1/b/bkt", {"softDeletePolicy": {"retentionDurationSeconds": "0"}})
    talk.put("a", b"same")
    talk.put("b", b"same")
    talk.world.take_dirt()
    talk.call("DELETE", talk.object("a"))
    assert not talk.world.take_dirt().contents
    assert talk.raw("GET", talk.object("b"), alt="media").body == b"same"
    talk.call("DELETE", talk.object("b"))
    assert list(talk.world.take_dirt().contents.values()) == [None]


def test_one_write_a_second_where_the_profile_asks_for_it():
    talk = Talk(profile=REALISTIC)
    talk.bucket()
    assert talk.put("a", b"1")[0] == 200
    status, reply = talk.put("a", b"2")
    assert (status, reply["error"]["errors"][0]["reason"]) == (429, "rateLimitExceeded")
    assert talk.put("b", b"1")[0] == 200
    talk.wait(1)
    assert talk.put("a", b"2")[0] == 200


def test_a_policy_is_changed_only_with_its_current_etag(talk):
    policy = talk.call("GET", "/storage/v1/b/bkt/iam")[1]
    body = {"bindings": [{"role": "roles/storage.admin", "members": ["user:a@b.c"]}], "etag": policy["etag"]}
    assert talk.call("PUT", "/storage/v1/b/bkt/iam", body)[0] == 200
    assert talk.call("PUT", "/storage/v1/b/bkt/iam", body)[0] == 412
