"""A project's surroundings without any wire: quotas, networks, routers, service accounts, and the services' clock."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests.localcloud.talk import INSTANCES, NODES, Talk, instance

COMPUTE = "/compute/v1/projects/local-p"
REGION = f"{COMPUTE}/regions/us-central1"
QUOTAS = "/cloudquotas/v1/projects/local-p/locations/global/services/tpu.googleapis.com/quotaInfos"
ACCOUNTS = "/iam/v1/projects/local-p/serviceAccounts"
V6E = "TPUV6EPerProjectPerZoneForTPUAPI"
V6E_8 = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}


@pytest.fixture
def talk() -> Talk:
    return Talk()


def said(talk: Talk, **settings: Any) -> None:
    assert talk.call("POST", "/_cloud/project", settings)[0] == 200


def test_what_is_limited_is_listed_as_cloud_quotas_lists_it_and_enforced(talk: Talk) -> None:
    assert talk.call("GET", QUOTAS) == (200, {})
    said(talk, quotas={V6E: {"us-east5-b": 8}})
    (info,) = talk.call("GET", QUOTAS)[1]["quotaInfos"]
    assert info["quotaId"] == V6E
    (entry,) = info["dimensionsInfos"]
    assert entry == {
        "dimensions": {"zone": "us-east5-b"},
        "details": {"value": "8"},
        "applicableLocations": ["us-east5-b"],
    }
    nodes = NODES.replace("us-central1-a", "us-east5-b")
    assert talk.call("POST", nodes, V6E_8, nodeId="one")[0] == 200
    status, answer = talk.call("POST", nodes, V6E_8, nodeId="two")
    assert status == 429
    assert V6E in answer["error"]["message"]


def test_a_region_tells_what_is_used_and_refuses_beyond_its_limit(talk: Talk) -> None:
    said(talk, quotas={"CPUS": {"us-central1": 3}})
    talk.vm("one")
    quotas = {each["metric"]: each for each in talk.call("GET", REGION)[1]["quotas"]}
    assert quotas["CPUS"] == {"metric": "CPUS", "limit": 3, "usage": 2}
    assert (quotas["INSTANCES"]["usage"], quotas["IN_USE_ADDRESSES"]["usage"]) == (1, 1)
    status, answer = talk.call("POST", INSTANCES, instance("two"))
    assert (status, answer["error"]["errors"][0]["reason"]) == (403, "quotaExceeded")
    assert talk.call("POST", INSTANCES, instance("n2", machineType="zones/x/machineTypes/n2-standard-2"))[0] == 200


def test_what_is_not_offered_any_more_is_neither_listed_nor_made(talk: Talk) -> None:
    said(talk, lacks=["v3-8", "tpu-ubuntu2204-base", "e2-small"])
    zone = NODES.removesuffix("/nodes")
    types = talk.call("GET", f"{zone}/acceleratorTypes", pageSize="1000")[1]["acceleratorTypes"]
    assert "v3-8" not in {each["type"] for each in types}
    runtimes = talk.call("GET", f"{zone}/runtimeVersions")[1]["runtimeVersions"]
    assert "tpu-ubuntu2204-base" not in {each["version"] for each in runtimes}
    body = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    assert talk.call("POST", NODES, body, nodeId="n")[0] == 400
    assert talk.call("GET", f"{INSTANCES.removesuffix('/instances')}/machineTypes/e2-small")[0] == 404


def test_a_network_is_there_once_it_was_asked_for_with_ways_in_and_out(talk: Talk) -> None:
    subnetwork = f"{REGION}/subnetworks/mine"
    assert talk.call("GET", subnetwork)[0] == 404
    assert talk.call("GET", f"{COMPUTE}/global/networks/training")[1]["autoCreateSubnetworks"] is False
    found = talk.call("GET", subnetwork)[1]
    assert (found["network"].rpartition("/")[2], found["privateIpGoogleAccess"]) == ("training", True)
    names = {each["name"] for each in talk.call("GET", f"{COMPUTE}/global/firewalls")[1]["items"]}
    assert {"default-allow-ssh", "training-allow-ssh"} <= names
    (router,) = talk.call("GET", f"{REGION}/routers")[1]["items"]
    assert (router["name"], len(router["nats"])) == ("training-router", 1)
    said(talk, networks=["default"])
    assert talk.call("GET", f"{COMPUTE}/global/networks/other")[0] == 404
    assert "items" not in talk.call("GET", f"{REGION}/routers")[1]


def test_private_access_and_routers_change_with_regional_operations(talk: Talk) -> None:
    change = talk.call(
        "POST", f"{REGION}/subnetworks/default/setPrivateIpGoogleAccess", {"privateIpGoogleAccess": True}
    )
    assert change[1]["region"].endswith("regions/us-central1")
    talk.wait(2)
    assert talk.call("GET", f"{REGION}/operations/{change[1]['name']}")[1]["status"] == "DONE"
    assert talk.call("GET", f"{REGION}/subnetworks/default")[1]["privateIpGoogleAccess"] is True
    body = {"name": "out", "network": "global/networks/default", "nats": [{"name": "nat"}]}
    assert talk.call("POST", f"{REGION}/routers", body)[0] == 200
    assert talk.call("POST", f"{REGION}/routers", body)[0] == 409
    assert talk.call("GET", f"{REGION}/routers/out")[1]["nats"] == [{"name": "nat"}]
    assert talk.call("DELETE", f"{REGION}/routers/out")[0] == 200
    assert talk.call("GET", f"{REGION}/routers/out")[0] == 404


def test_any_account_is_there_until_the_only_ones_are_named(talk: Talk) -> None:
    email = "trainer@local-p.iam.gserviceaccount.com"
    assert talk.call("GET", f"{ACCOUNTS}/{email}")[1]["email"] == email
    said(talk, accounts=[])
    assert talk.call("GET", f"{ACCOUNTS}/{email}")[0] == 404
    assert talk.call("POST", ACCOUNTS, {"accountId": "trainer"})[1]["email"] == email
    assert talk.call("POST", ACCOUNTS, {"accountId": "trainer"})[0] == 409
    assert talk.call("POST", ACCOUNTS, {"accountId": "No"})[0] == 400
    assert talk.call("GET", f"{ACCOUNTS}/{email}")[0] == 200
    assert talk.call("DELETE", f"{ACCOUNTS}/{email}")[0] == 200
    assert talk.call("GET", f"{ACCOUNTS}/{email}")[0] == 404


def test_permissions_on_a_bucket_are_those_the_caller_has(talk: Talk) -> None:
    talk.bucket()
    path, asked = "/storage/v1/b/bkt/iam/testPermissions", "storage.objects.get,storage.objects.create"
    assert talk.call("GET", path, permissions=asked)[1]["permissions"] == asked.split(",")
    rules = {"enforce": True, "anonymous": {"email": "a@x"}, "bindings": {"a@x": ["roles/storage.objectViewer"]}}
    talk.call("POST", "/_cloud/access", rules)
    assert talk.call("GET", path, permissions=asked)[1]["permissions"] == ["storage.objects.get"]


def test_a_projects_policy_shows_what_counts_until_one_is_set(talk: Talk) -> None:
    path = "/resourcemanager/v1/projects/local-p"
    (binding,) = talk.call("POST", f"{path}:getIamPolicy", {})[1]["bindings"]
    assert binding["role"] == "roles/editor"
    assert binding["members"][0].endswith("-compute@developer.gserviceaccount.com")
    talk.call("POST", f"{path}:setIamPolicy", {"policy": {"bindings": []}})
    assert "bindings" not in talk.call("POST", f"{path}:getIamPolicy", {})[1]


def test_the_services_clock_is_told_in_every_reply(talk: Talk) -> None:
    assert "Date" not in talk.raw("GET", COMPUTE).headers
    said(talk, clock_ahead_s=600)
    ahead = parsedate_to_datetime(talk.raw("GET", COMPUTE).headers["Date"]).timestamp() - talk.now
    assert abs(ahead - 600) < 1


def test_settings_that_nobody_knows_are_refused(talk: Talk) -> None:
    assert talk.call("POST", "/_cloud/project", {"quota": {}})[0] == 400
