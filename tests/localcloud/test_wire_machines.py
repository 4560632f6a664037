"""The core's events carried out by real machines, and their notices heard: one node through its life."""

import time

import pytest

pytestmark = pytest.mark.wire
NODES = "/v2/projects/local-tests/locations/us-central1-a/nodes"


def until(true, patience_s=20.0):
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def host_keys(cloud):
    body = {"queryPath": "hostkeys/"}
    entries = cloud.ask("POST", f"{NODES}/n1:getGuestAttributes", body).get("guestAttributes", [{}])
    return [item["value"] for item in entries[0].get("queryValue", {}).get("items", [])]


def test_a_ready_node_publishes_host_keys_which_outlive_a_stop_but_not_the_node(cloud):
    body = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
    cloud.ask("POST", f"{NODES}?nodeId=n1", body)
    until(lambda: cloud.status()["machines"] and cloud.status()["machines"][0]["booted"])
    first = host_keys(cloud)
    assert first
    cloud.ask("POST", f"{NODES}/n1:stop", {})
    until(lambda: cloud.ask("GET", f"{NODES}/n1")["state"] == "STOPPED")
    cloud.ask("POST", f"{NODES}/n1:start", {})
    until(lambda: cloud.status()["machines"] and cloud.status()["machines"][0]["booted"])
    assert host_keys(cloud) == first
    cloud.kill()
    cloud.start()
    until(lambda: cloud.status()["machines"][0]["booted"])
    cloud.ask("DELETE", f"{NODES}/n1")
    until(lambda: cloud.status()["nodes"] == [])
    cloud.ask("POST", f"{NODES}?nodeId=n1", body)
    until(lambda: cloud.status()["machines"] and cloud.status()["machines"][0]["booted"])
    assert host_keys(cloud) != first
