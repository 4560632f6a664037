"""TPU nodes in virtual time: states, refusals, late failures, and what the machines are told."""

import re

import pytest

from tests.localcloud.talk import NODES, ZONE, Talk
from tpuops.facts import catalogue
from tpuops.localcloud.core.events import Booted, Control, DeleteMachine, StartMachine, StopMachine
from tpuops.localcloud.core.profile import Profile

V3 = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
OPERATION = re.compile(
    r"projects/local-p/locations/us-central1-a/operations/operation-\d{13}-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}"
)


def test_a_node_is_created_by_an_operation_that_has_no_done_until_it_is_done(talk):
    status, operation = talk.call("POST", NODES, {"runtimeVersion": "r", "acceleratorType": "v3-8"}, nodeId="n1")
    assert status == 200
    assert OPERATION.fullmatch(operation["name"])
    assert "done" not in operation
    creating = talk.call("GET", f"{NODES}/n1")[1]
    assert creating["state"] == "CREATING"
    assert "networkEndpoints" not in creating
    talk.wait(0.59)
    assert "done" not in talk.call("GET", f"/v2/{operation['name']}")[1]
    talk.wait(0.02)
    done = talk.call("GET", f"/v2/{operation['name']}")[1]
    assert done["done"] is True
    assert done["response"]["state"] == "READY"
    assert done["response"]["health"] == "HEALTHY"


def test_a_ready_node_starts_one_machine_a_worker(talk):
    node = talk.node("n1", acceleratorType="v2-32", metadata={"k": "v"}, networkConfig={"enableExternalIps": True})
    talk.node("n2")
    started = [event.machine for event in talk.events if isinstance(event, StartMachine)]
    assert [machine.id for machine in started[:4]] == [f"{node['id']}-{worker}" for worker in range(4)]
    assert [endpoint["ipAddress"] for endpoint in node["networkEndpoints"]] == [m.address for m in started[:4]]
    assert node["networkEndpoints"][0]["accessConfig"]["externalIp"] == started[0].address
    assert started[0].metadata == {"k": "v"}
    assert (started[0].boot, started[0].devices, started[0].kind) == (1, 8, "tpu")
    assert len({machine.address for machine in started}) == 5


def test_a_worker_without_external_addresses_shows_none(talk):
    assert "accessConfig" not in talk.node()["networkEndpoints"][0]


def test_a_name_that_is_taken_is_refused(talk):
    talk.node()
    status, reply = talk.call("POST", NODES, V3, nodeId="n1")
    assert (status, reply["error"]["status"]) == (409, "ALREADY_EXISTS")


@pytest.mark.parametrize(
    ("zone", "body", "name", "text"),
    [
        ("us-central1-a", {"acceleratorType": "v4-8"}, "n", "could not be found in the zonal accelerator"),
        ("us-central1-q", {"acceleratorType": "v3-8"}, "n", 'zone "us-central1-q" is not supported'),
        ("us-central1-a", {"acceleratorType": "v3-8", "runtimeVersion": ""}, "n", "runtime_version"),
        ("us-central1-a", {"acceleratorType": "v3-8"}, "N_1", "Invalid node ID"),
        ("us-central1-a", {"acceleratorType": "v3-8", "labels": {"A": "b"}}, "n", "Invalid label"),
    ],
)
def test_a_bad_request_is_refused_at_once_with_the_recorded_text(talk, zone, body, name, text):
    path = f"/v2/projects/local-p/locations/{zone}/nodes"
    status, reply = talk.call("POST", path, {"runtimeVersion": "r", **body}, nodeId=name)
    assert (status, reply["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert text in reply["error"]["message"]
    assert "[EID: 0x" in reply["error"]["message"]


def test_a_topology_stands_for_its_type_and_enum_numbers_for_names(talk):
    config = {"type": 4, "topology": "2x2"}
    assert talk.node("n1", acceleratorType="", acceleratorConfig=config)["acceleratorType"] == "v3-8"


def test_what_is_not_there_is_not_found(talk):
    for verb, path in [("GET", "n"), ("DELETE", "n"), ("POST", "n:stop"), ("POST", "n:start")]:
        status, reply = talk.call(verb, f"{NODES}/{path}")
        assert (status, reply["error"]["status"]) == (404, "NOT_FOUND")


def test_a_zone_that_google_does_not_show_is_refused_with_its_reason(talk):
    status, reply = talk.call("GET", "/v2/projects/local-p/locations/mars-north1-a/nodes")
    assert status == 403
    assert reply["error"]["details"][0]["reason"] == "LOCATION_POLICY_VIOLATED"


def test_empty_lists_have_no_key_and_all_zones_are_listed_with_a_dash(talk):
    assert talk.call("GET", NODES)[1] == {}
    talk.node("n1")
    everywhere = talk.call("GET", "/v2/projects/local-p/locations/-/nodes")[1]
    assert [node["name"] for node in everywhere["nodes"]] == ["projects/local-p/locations/us-central1-a/nodes/n1"]
    assert talk.call("GET", "/v2/projects/local-other/locations/-/nodes")[1] == {}


def test_lists_come_in_pages(talk):
    for number in range(5):
        talk.node(f"n{number}")
    names, token = [], ""
    for expected in (2, 2, 1):
        reply = talk.call("GET", NODES, pageSize="2", pageToken=token)[1]
        assert len(reply["nodes"]) == expected
        names += [node["name"][-2:] for node in reply["nodes"]]
        token = reply.get("nextPageToken", "")
    assert names == ["n0", "n1", "n2", "n3", "n4"]
    assert not token


def test_stop_and_start_keep_the_machine_and_count_its_boots(talk):
    node = talk.node()
    talk.call("POST", f"{NODES}/n1:stop", {})
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "STOPPING"
    talk.wait()
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "STOPPED"
    talk.call("POST", f"{NODES}/n1:start", {})
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "STARTING"
    talk.wait()
    again = talk.call("GET", f"{NODES}/n1")[1]
    assert (again["state"], again["id"]) == ("READY", node["id"])
    machine = f"{node['id']}-0"
    assert [type(event) for event in talk.events] == [StartMachine, StopMachine, StartMachine]
    assert (talk.events[-1].machine.id, talk.events[-1].machine.boot) == (machine, 2)


@pytest.mark.parametrize(
    "fields",
    [{"schedulingConfig": {"spot": True}}, {"schedulingConfig": {"preemptible": True}}, {"acceleratorType": "v2-32"}],
)
def test_what_can_be_taken_or_has_many_workers_cannot_be_stopped(talk, fields):
    talk.node("n1", **fields)
    status, reply = talk.call("POST", f"{NODES}/n1:stop", {})
    assert (status, reply["error"]["status"]) == (400, "FAILED_PRECONDITION")


def test_delete_frees_the_name_and_the_disk_when_it_is_done(talk):
    node = talk.node()
    operation = talk.call("DELETE", f"{NODES}/n1")[1]
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "DELETING"
    assert talk.call("POST", NODES, V3, nodeId="n1")[0] == 409
    assert talk.call("DELETE", f"{NODES}/n1")[1]["name"] == operation["name"]
    talk.wait()
    assert talk.call("GET", f"{NODES}/n1")[0] == 404
    assert talk.call("GET", f"/v2/{operation['name']}")[1]["response"] == {
        "@type": "type.googleapis.com/google.protobuf.Empty"
    }
    assert DeleteMachine(f"{node['id']}-0") in talk.events
    assert talk.node()["id"] != node["id"]


def test_deleting_a_node_that_is_being_created_ends_its_creation(talk):
    create = talk.call("POST", NODES, V3, nodeId="n1")[1]
    talk.call("DELETE", f"{NODES}/n1")
    talk.wait()
    assert talk.call("GET", f"/v2/{create['name']}")[1]["error"]["code"] == 10
    assert talk.call("GET", f"{NODES}/n1")[0] == 404
    assert not [event for event in talk.events if isinstance(event, StartMachine)]


def test_a_preempted_node_can_only_be_deleted():
    talk = Talk([{"on": {"after_s": 20}, "do": {"preempt": True}}])
    node = talk.node("n1", schedulingConfig={"spot": True})
    talk.wait(15)
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "PREEMPTED"
    assert StopMachine(f"{node['id']}-0") in talk.events
    for verb, path, query in [
        ("POST", f"{NODES}/n1:start", {}),
        ("POST", f"{NODES}/n1:stop", {}),
        ("PATCH", f"{NODES}/n1", {"updateMask": "labels"}),
    ]:
        status, reply = talk.call(verb, path, {}, **query)
        assert (status, reply["error"]["status"]) == (400, "INVALID_ARGUMENT")
        assert "is not supported while in state PREEMPTED" in reply["error"]["message"]
    assert talk.call("DELETE", f"{NODES}/n1")[0] == 200
    talk.wait()
    assert talk.call("GET", f"{NODES}/n1")[0] == 404


def test_a_spot_node_taken_while_it_is_created_fails_its_operation():
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {"preempt": True}}])
    create = talk.call("POST", NODES, {**V3, "schedulingConfig": {"spot": True}}, nodeId="n1")[1]
    talk.wait()
    failed = talk.call("GET", f"/v2/{create['name']}")[1]
    assert (failed["done"], failed["error"]["code"]) == (True, 3)
    assert "while in state PREEMPTED" in failed["error"]["message"]
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "PREEMPTED"
    assert talk.events == []


def test_patch_replaces_whole_maps_and_ignores_output_fields(talk):
    talk.node("n1", labels={"a": "b"}, metadata={"x": "y"})
    body = {"labels": {"c": "d"}, "state": "STOPPED", "id": "1"}
    talk.call("PATCH", f"{NODES}/n1", body, updateMask="labels")
    status, reply = talk.call("PATCH", f"{NODES}/n1", body, updateMask="labels")
    assert (status, reply["error"]["code"]) == (409, 409)
    talk.wait()
    node = talk.call("GET", f"{NODES}/n1")[1]
    assert (node["labels"], node["metadata"], node["state"]) == ({"c": "d"}, {"x": "y"}, "READY")
    assert talk.call("PATCH", f"{NODES}/n1", body, updateMask="state")[0] == 400


def test_new_metadata_reaches_the_running_machine(talk):
    node = talk.node()
    talk.call("PATCH", f"{NODES}/n1", {"metadata": {"ssh-keys": "me:key"}}, updateMask="metadata")
    talk.wait()
    order = {"order": "metadata", "metadata": {"ssh-keys": "me:key"}}
    assert talk.events[-1] == Control(f"{node['id']}-0", order)


def test_host_keys_are_published_once_the_machine_has_booted(talk):
    node = talk.node("n1", acceleratorType="v2-32")
    attributes = talk.call("POST", f"{NODES}/n1:getGuestAttributes", {"queryPath": "hostkeys/"})[1]
    assert len(attributes["guestAttributes"]) == 4
    assert "items" not in attributes["guestAttributes"][0]["queryValue"]
    talk.events += talk.core.tell(Booted(f"{node['id']}-2", ("ssh-ed25519 AAAA",)), talk.now)
    body = {"queryPath": "hostkeys/", "workerIds": ["2"]}
    found = talk.call("POST", f"{NODES}/n1:getGuestAttributes", body)[1]["guestAttributes"]
    assert found[0]["queryValue"]["items"] == [{"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAA"}]


@pytest.mark.parametrize("error", [{"code": 8, "message": "There is no more capacity in the zone [EID: 0x1]"}])
def test_creation_may_fail_late_and_then_leaves_nothing(error):
    talk = Talk([{"on": {"method": "tpu.nodes.create"}, "do": {"fail_operation": error}}])
    operation = talk.call("POST", NODES, V3, nodeId="n1")[1]
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "CREATING"
    talk.wait()
    done = talk.call("GET", f"/v2/{operation['name']}")[1]
    assert (done["done"], done["error"]) == (True, error)
    assert talk.call("GET", f"{NODES}/n1")[0] == 404
    assert talk.events == []


def test_a_stopped_node_may_not_get_its_capacity_back():
    error = {"code": 8, "message": "There is no more capacity"}
    talk = Talk([{"on": {"method": "tpu.nodes.start"}, "do": {"fail_operation": error}}])
    talk.node()
    talk.call("POST", f"{NODES}/n1:stop", {})
    talk.wait()
    operation = talk.call("POST", f"{NODES}/n1:start", {})[1]
    talk.wait()
    assert talk.call("GET", f"/v2/{operation['name']}")[1]["error"] == error
    assert talk.call("GET", f"{NODES}/n1")[1]["state"] == "STOPPED"


def test_quota_is_refused_at_admission_and_told_apart_from_capacity():
    talk = Talk(profile=Profile(latencies={}, quotas={"v3": 8}))
    talk.node("n1")
    status, reply = talk.call("POST", NODES, {"runtimeVersion": "r", "acceleratorType": "v3-8"}, nodeId="n2")
    assert (status, reply["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert reply["error"]["details"][0]["@type"].endswith("google.rpc.QuotaFailure")


def test_the_service_adds_pubsub_to_the_scopes_and_names_the_default_account(talk):
    account = talk.node()["serviceAccount"]
    assert account["email"].endswith("-compute@developer.gserviceaccount.com")
    assert account["scope"][-1] == "https://www.googleapis.com/auth/pubsub"


def test_zones_tell_what_they_offer(talk):
    types = talk.call("GET", f"{ZONE}/acceleratorTypes")[1]["acceleratorTypes"]
    assert "v3-8" in [entry["type"] for entry in types]
    assert talk.call("GET", f"{ZONE}/acceleratorTypes/v3-8")[1]["acceleratorConfigs"][0]["topology"] == "2x2"
    assert talk.call("GET", f"{ZONE}/acceleratorTypes/v4-8")[0] == 404
    assert talk.call("GET", f"{ZONE}/runtimeVersions/tpu-ubuntu2204-base")[1]["version"] == "tpu-ubuntu2204-base"
    zones = talk.call("GET", "/v2/projects/local-p/locations")[1]["locations"]
    assert {"us-central1-a", "europe-west4-a"} <= {zone["locationId"] for zone in zones}


def test_the_same_seed_gives_the_same_cloud():
    first, second = Talk(), Talk()
    assert first.node() == second.node()
    assert first.events == second.events


def test_external_addresses_come_and_go_by_a_patch(talk):
    talk.node("n1", networkConfig={"network": "mine", "canIpForward": True})
    for wanted, mask in ((True, "network_config.enable_external_ips"), (False, "networkConfig.enableExternalIps")):
        body = {"networkConfig": {"enableExternalIps": wanted, "network": "other"}}
        assert talk.call("PATCH", f"{NODES}/n1", body, updateMask=mask)[0] == 200
        talk.wait()
        node = talk.call("GET", f"{NODES}/n1")[1]
        assert [("accessConfig" in endpoint) for endpoint in node["networkEndpoints"]] == [wanted]
        assert node["networkConfig"]["network"].endswith("/mine")
        assert (node["networkConfig"].get("enableExternalIps"), node["networkConfig"]["canIpForward"]) == (
            wanted or None,
            True,
        )


def test_a_worker_has_an_endpoint_in_each_of_its_networks(talk):
    several = [{"network": "a", "enableExternalIps": True}, {"network": "b"}]
    node = talk.node("n1", acceleratorType="v2-32", networkConfigs=several)
    assert "networkConfig" not in node
    assert [("accessConfig" in endpoint) for endpoint in node["networkEndpoints"]] == [True, False] * 4
    both = {**V3, "networkConfigs": several, "networkConfig": {"network": "a"}}
    assert talk.call("POST", NODES, both, nodeId="n2")[0] == 400
    body = {"networkConfig": {"enableExternalIps": True}}
    assert talk.call("PATCH", f"{NODES}/n1", body, updateMask="network_config.enable_external_ips")[0] == 400


def test_a_description_is_not_endless(talk):
    assert talk.call("POST", NODES, {**V3, "description": "x" * 513}, nodeId="n1")[0] == 400
    assert talk.node("n1", description="x" * 512)["description"] == "x" * 512


@pytest.mark.parametrize("name", catalogue.accelerator_types())
def test_every_shape_of_the_catalogue_has_its_workers(talk, name):
    known = catalogue.accelerator(name)
    zone = catalogue.zones_of(name)[0]
    nodes = NODES.replace("us-central1-a", zone)
    runtime = catalogue.runtimes(known.generation).default
    asked = {"acceleratorType": name, "runtimeVersion": runtime}
    assert talk.call("POST", nodes, asked, nodeId="n1")[0] == 200
    talk.wait()
    node = talk.call("GET", f"{nodes}/n1")[1]
    started = [event.machine for event in talk.events if isinstance(event, StartMachine)]
    assert node["acceleratorConfig"] == {"type": known.config_type, "topology": known.topology}
    assert len(node["networkEndpoints"]) == len(started) == known.workers
    assert [machine.worker for machine in started] == list(range(known.workers))
    assert sum(machine.devices for machine in started) == known.devices
    status, _ = talk.call("POST", f"{nodes}/n1:stop", {})
    assert status == (200 if known.workers == 1 else 400)
    offered = talk.call("GET", f"{nodes.removesuffix('nodes')}acceleratorTypes", pageSize="1000")[1]
    assert name in {each["type"] for each in offered["acceleratorTypes"]}


def test_every_zone_lists_the_runtimes_of_what_it_offers(talk):
    for zone in catalogue.zones():
        path = f"/v2/projects/local-p/locations/{zone}/runtimeVersions"
        listed = {each["version"] for each in talk.call("GET", path)[1]["runtimeVersions"]}
        generations = {catalogue.accelerator(name).generation for name in catalogue.offered(zone)}
        assert {catalogue.runtimes(generation).default for generation in generations} <= listed
        assert talk.call("GET", f"{path}/{min(listed)}")[0] == 200


def test_a_zone_that_is_closed_to_the_project_is_not_listed(talk):
    talk.call("POST", "/_cloud/access", {"zones": {"us-central2-b": "LOCATION_POLICY_VIOLATED"}})
    listed = talk.call("GET", "/v2/projects/local-p/locations", pageSize="1000")[1]["locations"]
    names = {each["locationId"] for each in listed}
    assert ("us-central2-b" in names, "us-central1-a" in names) == (False, True)
    assert talk.call("GET", "/v2/projects/local-p/locations/us-central2-b/nodes")[0] == 403
