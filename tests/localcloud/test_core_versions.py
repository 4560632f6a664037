"""Generations that are no longer live: object versioning and soft delete, in virtual time."""

import pytest

from tests.localcloud.talk import Talk

BUCKET = "/storage/v1/b/bkt"
OBJECTS = f"{BUCKET}/o"
WEEK_S = 7 * 24 * 3600


@pytest.fixture
def talk():
    talk = Talk()
    talk.bucket()
    return talk


def names(talk, **query):
    return [item["name"] for item in talk.call("GET", OBJECTS, **query)[1].get("items", [])]


def versioned(talk):
    talk.call("PATCH", BUCKET, {"versioning": {"enabled": True}, "softDeletePolicy": {"retentionDurationSeconds": "0"}})


def test_versioning_keeps_what_is_overwritten_and_deleted(talk):
    versioned(talk)
    first = talk.put("a", b"1")[1]["generation"]
    second = talk.put("a", b"2")[1]["generation"]
    assert names(talk) == ["a"]
    listed = talk.call("GET", OBJECTS, versions="true")[1]["items"]
    assert [(item["generation"], "timeDeleted" in item) for item in listed] == [(first, True), (second, False)]
    assert talk.raw("GET", talk.object("a"), generation=first, alt="media").body == b"1"
    talk.call("DELETE", talk.object("a"))
    assert talk.call("GET", talk.object("a"))[0] == 404
    assert names(talk, versions="true") == ["a", "a"]
    assert talk.call("DELETE", BUCKET)[0] == 409
    for generation in (first, second):
        assert talk.raw("DELETE", talk.object("a"), generation=generation).status == 204
        assert talk.call("DELETE", talk.object("a"), generation=generation)[0] == 404
    assert talk.call("DELETE", BUCKET)[0] == 200


def test_a_delete_that_names_the_live_generation_leaves_nothing(talk):
    versioned(talk)
    live = talk.put("a", b"1")[1]["generation"]
    talk.raw("DELETE", talk.object("a"), generation=live)
    assert names(talk, versions="true") == []


def test_soft_delete_keeps_for_a_week_and_restores_as_a_new_generation(talk):
    old = talk.put("a", b"1", contentType="text/plain")[1]["generation"]
    talk.put("a", b"2")
    talk.call("DELETE", talk.object("a"))
    assert names(talk) == []
    assert names(talk, softDeleted="true") == ["a", "a"]
    gone = talk.call("GET", talk.object("a"), softDeleted="true", generation=old)[1]
    assert gone["hardDeleteTime"] > gone["softDeleteTime"]
    assert talk.call("GET", talk.object("a"), generation=old)[0] == 404
    restored = talk.call("POST", f"{talk.object('a')}/restore", generation=old)[1]
    assert restored["generation"] > old
    assert talk.raw("GET", talk.object("a"), alt="media").body == b"1"
    talk.wait(WEEK_S + 1)
    assert names(talk, softDeleted="true") == []
    assert talk.call("POST", f"{talk.object('a')}/restore", generation="1")[0] == 404


def test_what_is_softly_deleted_does_not_keep_the_bucket_and_goes_with_it(talk):
    talk.put("a", b"1")
    talk.call("DELETE", talk.object("a"))
    assert talk.call("DELETE", BUCKET)[0] == 200
    talk.bucket()
    assert names(talk, softDeleted="true") == []
    assert talk.world.count("storage.old") == 0


def test_without_soft_delete_bytes_are_gone_at_once(talk):
    talk.call("PATCH", BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": "0"}})
    talk.put("a", b"1")
    talk.put("a", b"2")
    assert names(talk, softDeleted="true") == []


def test_a_move_is_one_step_and_obeys_preconditions_of_both_ends(talk):
    talk.put("a", b"1")
    talk.put("b", b"2")
    path = f"{talk.object('a')}/moveTo/o/b"
    assert talk.call("POST", path, ifGenerationMatch="0")[0] == 412
    assert talk.call("POST", path, ifSourceGenerationMatch="1")[0] == 412
    assert talk.call("POST", path)[1]["name"] == "b"
    assert (names(talk), talk.raw("GET", talk.object("b"), alt="media").body) == (["b"], b"1")
    assert talk.call("POST", path)[0] == 404
