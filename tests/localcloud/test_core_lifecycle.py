"""Lifecycle rules of buckets in virtual time: each condition, which action wins, and what they never touch."""

import json
from dataclasses import replace

import pytest

from tests.localcloud.talk import Talk
from tpuops.localcloud.core.profile import INSTANT, REALISTIC

BUCKET = "/storage/v1/b/bkt"
OBJECTS = f"{BUCKET}/o"
DAY_S = 24 * 3600
HOURLY = {"lifecycle_s": 3600.0}
DELETE = {"type": "Delete"}


@pytest.fixture
def talk():
    talk = Talk(profile=replace(INSTANT, **HOURLY))
    talk.bucket()
    talk.call("PATCH", BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": "0"}})
    return talk


def rule(action, **condition):
    return {"action": action, "condition": condition}


def rules(talk, *given):
    status, reply = talk.call("PATCH", BUCKET, {"lifecycle": {"rule": list(given)}})
    assert status == 200, reply


def colder(storage_class):
    return {"type": "SetStorageClass", "storageClass": storage_class}


def items(talk, **query):
    return talk.call("GET", OBJECTS, **query)[1].get("items", [])


def names(talk, **query):
    return [item["name"] for item in items(talk, **query)]


def days(talk, count):
    talk.wait(count * DAY_S + HOURLY["lifecycle_s"])


def versioned(talk):
    talk.call("PATCH", BUCKET, {"versioning": {"enabled": True}})


def test_age_deletes_after_so_many_days_and_not_before(talk):
    rules(talk, rule(DELETE, age=2))
    talk.put("a", b"1")
    days(talk, 1)
    talk.put("b", b"1")
    assert names(talk) == ["a", "b"]
    days(talk, 1)
    assert names(talk) == ["b"]
    days(talk, 1)
    assert names(talk) == []


def test_all_conditions_of_a_rule_must_hold(talk):
    rules(talk, rule(DELETE, age=1, matchesPrefix=["old/", "tmp/"], matchesSuffix=[".log"]))
    for name in ("old/a.log", "tmp/b.log", "old/c.txt", "new/d.log"):
        talk.put(name, b"1")
    days(talk, 1)
    assert names(talk) == ["new/d.log", "old/c.txt"]


def test_dates_are_midnights(talk):
    rules(talk, rule(DELETE, createdBefore="2027-01-17"))
    talk.put("a", b"1")  # 2027-01-15
    days(talk, 2)
    talk.put("b", b"1")
    days(talk, 3)
    assert names(talk) == ["b"]


def test_custom_times_count_where_there_are_any(talk):
    rules(talk, rule(DELETE, daysSinceCustomTime=1), rule(DELETE, customTimeBefore="2020-01-01"))
    for name, custom in (("a", "2027-01-15T00:00:00Z"), ("b", "2019-01-01T00:00:00Z"), ("c", "2030-01-01T00:00:00Z")):
        talk.put(name, b"1")
        talk.call("PATCH", talk.object(name), {"customTime": custom})
    talk.put("d", b"1")
    days(talk, 1)
    assert names(talk) == ["c", "d"]


def test_newer_versions_are_counted(talk):
    versioned(talk)
    rules(talk, rule(DELETE, numNewerVersions=2))
    kept = [talk.put("a", str(number).encode())[1]["generation"] for number in range(5)]
    talk.wait(2 * HOURLY["lifecycle_s"])
    assert [item["generation"] for item in items(talk, versions="true")] == kept[-2:]


def test_what_is_not_live_is_counted_from_when_it_stopped_being_live(talk):
    versioned(talk)
    rules(talk, rule(DELETE, daysSinceNoncurrentTime=2, isLive=False))
    talk.put("a", b"1")
    days(talk, 3)
    talk.put("a", b"2")
    days(talk, 1)
    assert names(talk, versions="true") == ["a", "a"]
    days(talk, 1)
    assert names(talk, versions="true") == ["a"]


def test_a_live_object_of_a_versioned_bucket_becomes_noncurrent(talk):
    versioned(talk)
    rules(talk, rule(DELETE, age=1, isLive=True))
    talk.put("a", b"1")
    days(talk, 1)
    assert names(talk) == []
    assert names(talk, versions="true") == ["a"]


def test_what_rules_delete_is_softly_deleted_and_rules_never_touch_that(talk):
    talk.call("PATCH", BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": str(7 * DAY_S)}})
    rules(talk, rule(DELETE, age=0))
    talk.put("a", b"1")
    days(talk, 2)
    assert names(talk) == []
    assert names(talk, softDeleted="true") == ["a"]
    days(talk, 6)
    assert names(talk, softDeleted="true") == []


def test_delete_wins_over_a_class_and_the_coldest_class_over_others(talk):
    to_cold, to_near = colder("COLDLINE"), colder("NEARLINE")
    rules(talk, rule(to_near, age=1), rule(to_cold, age=1), rule(DELETE, age=1, matchesPrefix=["x"]))
    before = talk.put("a", b"1")[1]
    talk.put("x", b"1")
    days(talk, 1)
    [shown] = items(talk)
    assert (shown["name"], shown["storageClass"], shown["generation"]) == ("a", "COLDLINE", before["generation"])
    assert shown["timeStorageClassUpdated"] > before["timeStorageClassUpdated"]
    changed = shown["metageneration"]
    rules(talk, rule(to_near, age=0))
    days(talk, 1)
    assert (items(talk)[0]["storageClass"], items(talk)[0]["metageneration"]) == ("COLDLINE", changed)


def test_classes_can_be_asked_for(talk):
    rules(talk, rule(DELETE, matchesStorageClass=["NEARLINE"]))
    talk.put("a", b"1")
    talk.call("PATCH", talk.object("a"), {"storageClass": "NEARLINE"})
    talk.put("b", b"1")
    days(talk, 1)
    assert names(talk) == ["b"]


def test_what_is_held_or_retained_stays_until_it_is_not(talk):
    rules(talk, rule(DELETE, age=1))
    talk.call("PATCH", BUCKET, {"retentionPolicy": {"retentionPeriod": str(3 * DAY_S)}})
    talk.put("a", b"1")
    talk.put("b", b"1")
    talk.call("PATCH", talk.object("b"), {"temporaryHold": True})
    days(talk, 2)
    assert names(talk) == ["a", "b"]
    assert talk.call("DELETE", talk.object("a"))[1]["error"]["errors"][0]["reason"] == "retentionPolicyNotMet"
    days(talk, 1)
    assert names(talk) == ["b"]
    status, reply = talk.put("b", b"2")
    assert (status, "Temporary hold" in reply["error"]["message"]) == (403, True)
    talk.call("PATCH", talk.object("b"), {"temporaryHold": False})
    days(talk, 0)
    assert names(talk) == []


@pytest.mark.parametrize(
    "wrong",
    [
        rule(DELETE),
        rule({"type": "Shred"}, age=1),
        rule(colder("TEPID"), age=1),
        rule(DELETE, age=-1),
        rule(DELETE, createdBefore="soon"),
        rule(DELETE, matchesPrefix="a"),
        rule(DELETE, isLive="yes"),
        rule({"type": "AbortIncompleteMultipartUpload"}, isLive=True),
    ],
)
def test_rules_that_are_none_are_refused_and_change_nothing(talk, wrong):
    before = talk.call("GET", BUCKET)[1]
    assert talk.call("PATCH", BUCKET, {"lifecycle": {"rule": [wrong]}})[0] == 400
    assert talk.call("GET", BUCKET)[1] == before
    assert talk.call("POST", "/storage/v1/b", {"name": "b2b", "lifecycle": {"rule": [wrong]}}, project="p")[0] == 400


def test_rules_come_with_a_new_bucket_act_late_and_end_with_it():
    talk = Talk(profile=REALISTIC)
    body = {"name": "bkt", "lifecycle": {"rule": [rule(DELETE, age=0)]}}
    assert talk.call("POST", "/storage/v1/b", body, project="local-p")[0] == 200
    talk.put("a", b"1")
    talk.wait(DAY_S - 60)
    assert names(talk) == ["a"]
    talk.wait(61)
    assert names(talk) == []
    assert talk.core.next_due(talk.now) is not None
    talk.call("DELETE", BUCKET)
    assert talk.core.next_due(talk.now) is None


def test_without_rules_nobody_looks(talk):
    assert talk.core.next_due(talk.now) is None
    rules(talk, rule(DELETE, age=1))
    rules(talk, rule(DELETE, age=1))
    assert talk.world.count("timer") == 1
    rules(talk)
    assert talk.core.next_due(talk.now) is None
    assert json.dumps(talk.call("GET", BUCKET)[1]["lifecycle"]) == '{"rule": []}'
