"""Storage in virtual time: preconditions of the remaining verbs, uniform access, public access, settings of buckets."""

import json

import pytest

from tests.localcloud.talk import Talk
from tpuops.localcloud.core.profile import REALISTIC

BUCKET = "/storage/v1/b/bkt"
UPLOAD = "/upload/storage/v1/b/bkt/o"
DAY_S = 24 * 3600
UNIFORM = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
CLOSED = {"iamConfiguration": {"publicAccessPrevention": "enforced"}}


@pytest.fixture(autouse=True)
def _bucket(talk):
    talk.bucket()
    for name in ("a", "b"):
        talk.put(name, name.encode())


def gone(talk):
    """A softly deleted generation of `a`, over which there is a new one."""
    generation = talk.call("GET", talk.object("a"))[1]["generation"]
    talk.put("a", b"new")
    return generation


CHANGES = {
    "update": lambda talk, **query: talk.call("PUT", talk.object("a"), {}, **query),
    "compose": lambda talk, **query: talk.call(
        "POST", f"{talk.object('a')}/compose", {"sourceObjects": [{"name": "b"}]}, **query
    ),
    "copy": lambda talk, **query: talk.call("POST", f"{talk.object('b')}/copyTo/b/bkt/o/a", {}, **query),
    "rewrite": lambda talk, **query: talk.call("POST", f"{talk.object('b')}/rewriteTo/b/bkt/o/a", {}, **query),
    "move": lambda talk, **query: talk.call("POST", f"{talk.object('b')}/moveTo/o/a", **query),
    "bucket patch": lambda talk, **query: talk.call("PATCH", BUCKET, {"labels": {"a": "b"}}, **query),
    "bucket update": lambda talk, **query: talk.call("PUT", BUCKET, {"labels": {"a": "b"}}, **query),
}


@pytest.mark.parametrize("verb", CHANGES)
@pytest.mark.parametrize("parameter", ["ifMetagenerationMatch", "ifMetagenerationNotMatch"])
def test_every_other_change_keeps_its_preconditions(talk, verb, parameter):
    failing, right = ("9", "1") if parameter == "ifMetagenerationMatch" else ("1", "9")
    before = talk.call("GET", talk.object("a"))[1], talk.call("GET", BUCKET)[1]
    assert CHANGES[verb](talk, **{parameter: failing})[0] == 412
    assert (talk.call("GET", talk.object("a"))[1], talk.call("GET", BUCKET)[1]) == before
    assert CHANGES[verb](talk, **{parameter: right})[0] == 200


@pytest.mark.parametrize("verb", ["update", "compose", "copy", "rewrite", "move"])
def test_every_other_change_of_an_object_can_be_tied_to_its_generation(talk, verb):
    generation = talk.call("GET", talk.object("a"))[1]["generation"]
    assert CHANGES[verb](talk, ifGenerationMatch="0")[0] == 412
    assert CHANGES[verb](talk, ifGenerationNotMatch=generation)[0] == 412
    assert CHANGES[verb](talk, ifGenerationMatch=generation)[0] == 200


@pytest.mark.parametrize("verb", ["copy", "rewrite", "move"])
def test_sources_have_preconditions_of_their_own(talk, verb):
    assert CHANGES[verb](talk, ifSourceGenerationMatch="1")[0] == 412
    assert CHANGES[verb](talk, ifSourceMetagenerationNotMatch="1")[0] == 412
    assert CHANGES[verb](talk, ifSourceMetagenerationMatch="1")[0] == 200


def test_a_composed_source_that_must_not_be_there_is_a_failed_condition(talk):
    source = {"name": "b", "objectPreconditions": {"ifGenerationMatch": "0"}}
    body = {"sourceObjects": [source]}
    assert talk.call("POST", f"{talk.object('c')}/compose", body)[0] == 412


def test_restoring_keeps_preconditions(talk):
    path = f"{talk.object('a')}/restore"
    generation = gone(talk)
    assert talk.call("POST", path, generation=generation, ifGenerationMatch="0")[0] == 412
    assert talk.call("POST", path, generation=generation)[0] == 200


def test_metadata_of_what_is_not_live_any_more_changes_there(talk):
    talk.call("PATCH", BUCKET, {"versioning": {"enabled": True}})
    old = talk.call("GET", talk.object("a"))[1]["generation"]
    new = talk.put("a", b"2")[1]["generation"]
    changed = talk.call("PATCH", talk.object("a"), {"metadata": {"k": "v"}}, generation=old)[1]
    assert (changed["generation"], changed["metadata"]) == (old, {"k": "v"})
    live = talk.call("GET", talk.object("a"))[1]
    assert (live["generation"], "metadata" in live) == (new, False)
    assert talk.call("GET", talk.object("a"), generation=old)[1]["metadata"] == {"k": "v"}


def test_uniform_access_knows_no_lists_and_cannot_be_ended_after_ninety_days(talk):
    shown = talk.call("PATCH", BUCKET, UNIFORM)[1]["iamConfiguration"]
    assert shown["bucketPolicyOnly"] == shown["uniformBucketLevelAccess"]
    assert talk.put("c", b"1", predefinedAcl="private")[0] == 400
    status, reply = talk.call("PATCH", talk.object("a"), {"acl": [{"entity": "allUsers", "role": "READER"}]})
    assert (status, "legacy ACL" in reply["error"]["message"]) == (400, True)
    ended = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}
    talk.wait(89 * DAY_S)
    assert talk.call("PATCH", BUCKET, ended)[0] == 200
    assert talk.put("c", b"1", predefinedAcl="private")[0] == 200
    talk.call("PATCH", BUCKET, UNIFORM)
    talk.wait(91 * DAY_S)
    assert talk.call("PATCH", BUCKET, ended)[0] == 400


def test_a_bucket_that_prevents_public_access_lets_nobody_be_everybody(talk):
    body = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]}
    talk.call("PATCH", BUCKET, CLOSED)
    status, reply = talk.call("PUT", f"{BUCKET}/iam", body)
    assert (status, "public access prevention" in reply["error"]["message"]) == (412, True)
    talk.call("PATCH", BUCKET, {"iamConfiguration": {"publicAccessPrevention": "inherited"}})
    assert talk.call("PUT", f"{BUCKET}/iam", body)[0] == 200


def test_an_update_of_a_bucket_clears_what_it_does_not_name(talk):
    before = talk.call("PATCH", BUCKET, {"labels": {"a": "b"}, "versioning": {"enabled": True}})[1]
    after = talk.call("PUT", BUCKET, {"versioning": {"enabled": True}})[1]
    assert ("labels" in after, after["versioning"]) == (False, {"enabled": True})
    assert int(after["metageneration"]) == int(before["metageneration"]) + 1
    same = ("location", "projectNumber", "timeCreated", "generation")
    assert [after[field] for field in same] == [before[field] for field in same]


@pytest.mark.parametrize(("kept_s", "status"), [(0, 200), (7 * DAY_S, 200), (DAY_S, 400), (91 * DAY_S, 400)])
def test_soft_delete_keeps_for_nothing_or_for_a_week_to_ninety_days(talk, kept_s, status):
    before = talk.call("GET", BUCKET)[1]["softDeletePolicy"]
    talk.wait(1)
    answer, reply = talk.call("PATCH", BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": kept_s}})
    assert answer == status
    policy = reply["softDeletePolicy"] if status == 200 else talk.call("GET", BUCKET)[1]["softDeletePolicy"]
    assert policy["retentionDurationSeconds"] == str(kept_s if status == 200 else 7 * DAY_S)
    assert (policy["effectiveTime"] > before["effectiveTime"]) == (status == 200)


@pytest.mark.parametrize(
    ("stated", "status"), [("crc32c=mnG7TA==,md5=XUFAKrxLKna5cZ2REBfFkg==", 200), ("crc32c=AAAAAA==", 400)]
)
def test_hashes_in_a_header_are_checked(talk, stated, status):
    headers = {"x-goog-hash": stated}
    assert talk.raw("POST", UPLOAD, b"hello", headers, uploadType="media", name="c").status == status
    assert talk.call("GET", talk.object("c"))[0] == (200 if status == 200 else 404)


def test_a_session_that_nobody_finished_ends_after_a_week(talk):
    def opened():
        reply = talk.raw("POST", UPLOAD, {"name": "big"}, uploadType="resumable")
        return reply.headers["Location"].partition("upload_id=")[2]

    def send(upload):
        headers = {"content-range": "bytes 0-3/4"}
        return talk.raw("PUT", UPLOAD, b"0123", headers, uploadType="resumable", upload_id=upload).status

    old = opened()
    talk.wait(6 * DAY_S)
    new = opened()
    talk.wait(2 * DAY_S)
    assert (send(old), send(new)) == (404, 200)
    assert json.loads(talk.raw("GET", talk.object("big")).body)["size"] == "4"


@pytest.mark.parametrize("verb", ["update", "compose", "copy", "rewrite", "move"])
def test_one_change_a_second_of_an_object_whatever_the_verb(verb):
    talk = Talk(profile=REALISTIC)
    talk.bucket()
    talk.put("b", b"1")
    talk.put("a", b"1")
    assert CHANGES[verb](talk)[0] == 429
    assert talk.call("PATCH", talk.object("a"), {"metadata": {"k": "v"}})[0] == 429
    talk.wait(1)
    assert CHANGES[verb](talk)[0] == 200
