"""Compute instances in virtual time: operations, the time limit, spot, fingerprints, request ids."""

import base64

import pytest

from tests.localcloud.talk import COMPUTE, INSTANCES, START, Talk, instance
from tpuops.localcloud.core.draw import timestamp
from tpuops.localcloud.core.events import DeleteMachine, StartMachine, StopMachine

FIREWALLS = "/compute/v1/projects/local-p/global/firewalls"


def test_an_instance_appears_at_once_and_runs_when_its_operation_is_done(talk):
    operation = talk.call("POST", INSTANCES, instance("vm1"))[1]
    assert (operation["kind"], operation["status"]) == ("compute#operation", "RUNNING")
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "PROVISIONING"
    talk.wait(0.4)
    assert talk.call("GET", f"{COMPUTE}/operations/{operation['name']}")[1]["status"] == "DONE"
    running = talk.call("GET", f"{INSTANCES}/vm1")[1]
    machine = talk.events[0].machine
    assert running["status"] == "RUNNING"
    assert running["networkInterfaces"][0]["networkIP"] == machine.address
    assert running["networkInterfaces"][0]["accessConfigs"][0]["natIP"] == machine.address
    assert (machine.kind, machine.id) == ("vm", running["id"])
    assert machine.service_account.endswith("-compute@developer.gserviceaccount.com")


def test_links_start_where_the_caller_called(talk):
    assert talk.vm()["selfLink"] == f"http://localhost{INSTANCES}/vm1"


def test_wait_is_held_until_the_operation_ends_and_at_most_two_minutes(talk):
    operation = talk.call("POST", INSTANCES, instance("vm1"))[1]
    reply = talk.raw("POST", f"{COMPUTE}/operations/{operation['name']}/wait")
    assert reply.hold_until == pytest.approx(START + 0.4)


def test_a_repeated_request_id_gives_the_first_operation(talk):
    first = talk.call("POST", INSTANCES, instance("vm1"), requestId="u1")[1]
    second = talk.call("POST", INSTANCES, instance("vm1"), requestId="u1")
    assert (second[0], second[1]["name"]) == (200, first["name"])
    status, reply = talk.call("POST", INSTANCES, instance("vm1"))
    assert (status, reply["error"]["errors"][0]["reason"]) == (409, "alreadyExists")


def test_delete_takes_the_machine_and_its_disks(talk):
    vm = talk.vm()
    assert talk.call("GET", f"{COMPUTE}/disks/vm1")[1]["users"]
    talk.call("DELETE", f"{INSTANCES}/vm1")
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "STOPPING"
    talk.wait()
    assert talk.call("GET", f"{INSTANCES}/vm1")[0] == 404
    assert talk.call("GET", f"{COMPUTE}/disks/vm1")[0] == 404
    assert talk.events[-1] == DeleteMachine(vm["id"])


def test_a_second_delete_of_a_stopping_instance_does_not_hit_its_successor(talk):
    talk.vm()
    talk.call("DELETE", f"{INSTANCES}/vm1")
    talk.wait(0.2)
    talk.call("DELETE", f"{INSTANCES}/vm1")
    talk.wait(0.15)
    successor = talk.call("POST", INSTANCES, instance("vm1"))
    assert successor[0] == 200
    talk.wait()
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "RUNNING"


def test_a_disk_that_is_not_deleted_with_its_instance_stays(talk):
    talk.vm("vm1", disks=[{"boot": True, "initializeParams": {}}])
    talk.call("DELETE", f"{INSTANCES}/vm1")
    talk.wait()
    assert "users" not in talk.call("GET", f"{COMPUTE}/disks/vm1")[1]


def test_a_stopped_instance_is_called_terminated_and_starts_again(talk):
    vm = talk.vm()
    talk.call("POST", f"{INSTANCES}/vm1/stop")
    talk.wait()
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "TERMINATED"
    talk.call("POST", f"{INSTANCES}/vm1/start")
    talk.wait()
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "RUNNING"
    assert [type(event) for event in talk.events] == [StartMachine, StopMachine, StartMachine]
    assert talk.events[-1].machine.id == vm["id"]
    assert talk.events[-1].machine.boot == 2


def test_the_termination_time_is_enforced_by_the_service(talk):
    limit = {"terminationTime": timestamp(START + 60), "instanceTerminationAction": "DELETE"}
    vm = talk.vm("vm1", scheduling=limit)
    talk.wait(57)
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "RUNNING"
    talk.wait(3)
    assert talk.call("GET", f"{INSTANCES}/vm1")[0] == 404
    assert DeleteMachine(vm["id"]) in talk.events


def test_the_termination_time_of_a_deleted_instance_does_not_hit_its_successor(talk):
    limit = {"terminationTime": timestamp(START + 60), "instanceTerminationAction": "DELETE"}
    talk.vm("vm1", scheduling=limit)
    talk.call("DELETE", f"{INSTANCES}/vm1")
    talk.wait(10)
    assert talk.core.next_due(talk.now) is None
    talk.vm("vm1")
    talk.wait(100)
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "RUNNING"


@pytest.mark.parametrize(
    "scheduling",
    [
        {"terminationTime": timestamp(START + 60)},
        {"terminationTime": timestamp(START - 60), "instanceTerminationAction": "DELETE"},
        {"terminationTime": "soon", "instanceTerminationAction": "DELETE"},
        {"instanceTerminationAction": "DELETE"},
        {"provisioningModel": "SPOT", "automaticRestart": True},
    ],
)
def test_time_limits_that_make_no_sense_are_refused(talk, scheduling):
    assert talk.call("POST", INSTANCES, instance("vm1", scheduling=scheduling))[0] == 400


@pytest.mark.parametrize(("action", "status"), [("STOP", 200), ("DELETE", 404)])
def test_a_preempted_spot_instance_follows_its_termination_action(action, status):
    talk = Talk([{"on": {"after_s": 20, "machine": "vm1"}, "do": {"preempt": True}}])
    talk.vm("vm1", scheduling={"provisioningModel": "SPOT", "instanceTerminationAction": action})
    talk.wait(30)
    found, shown = talk.call("GET", f"{INSTANCES}/vm1")
    assert found == status
    assert status == 404 or shown["status"] == "TERMINATED"


def test_a_failed_insert_answers_200_with_its_error_inside():
    error = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no resources"}
    talk = Talk([{"on": {"method": "compute.instances.insert"}, "do": {"fail_operation": error}}])
    operation = talk.call("POST", INSTANCES, instance("vm1"))[1]
    talk.wait()
    status, done = talk.call("GET", f"{COMPUTE}/operations/{operation['name']}")
    assert (status, done["status"], done["httpErrorStatusCode"]) == (200, "DONE", 503)
    assert done["error"]["errors"] == [{"message": "no resources", "code": "ZONE_RESOURCE_POOL_EXHAUSTED"}]
    assert talk.call("GET", f"{INSTANCES}/vm1")[0] == 404


def test_labels_and_metadata_need_the_current_fingerprint(talk):
    vm = talk.vm()
    base64.b64decode(vm["labelFingerprint"], validate=True)
    body = {"labels": {"a": "b"}, "labelFingerprint": vm["labelFingerprint"]}
    assert talk.call("POST", f"{INSTANCES}/vm1/setLabels", body)[0] == 200
    status, reply = talk.call("POST", f"{INSTANCES}/vm1/setLabels", body)
    assert (status, reply["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")
    items = {"items": [{"key": "a", "value": "b"}], "fingerprint": vm["metadata"]["fingerprint"]}
    assert talk.call("POST", f"{INSTANCES}/vm1/setMetadata", items)[0] == 200
    assert talk.call("POST", f"{INSTANCES}/vm1/setMetadata", items)[0] == 412
    assert talk.events[-1].order == {"order": "metadata", "metadata": {"a": "b"}}


def test_lists_are_filtered_by_label_and_empty_ones_have_no_items(talk):
    talk.vm("vm1", labels={"a": "b"})
    talk.vm("vm2")
    assert "items" not in talk.call("GET", f"{COMPUTE}/disks", filter="name=none")[1]
    found = talk.call("GET", INSTANCES, filter="labels.a=b")[1]["items"]
    assert [vm["name"] for vm in found] == ["vm1"]
    everywhere = talk.call("GET", "/compute/v1/projects/local-p/aggregated/instances", filter="labels.a = b")[1]
    full = {zone for zone, scope in everywhere["items"].items() if "instances" in scope}
    assert full == {"zones/us-central1-a"}
    assert everywhere["items"]["zones/us-central1-b"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"


def test_host_keys_of_an_instance_need_guest_attributes_to_be_on(talk):
    talk.vm("off")
    talk.vm("on", metadata={"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]})
    talk.boot()
    assert talk.call("GET", f"{INSTANCES}/off/getGuestAttributes", queryPath="hostkeys/")[0] == 404
    found = talk.call("GET", f"{INSTANCES}/on/getGuestAttributes", queryPath="hostkeys/")[1]
    assert {item["key"] for item in found["queryValue"]["items"]} == {"ssh-ed25519", "ssh-rsa"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/compute/v1/projects/local-p/zones/us-south1-ai1b", 200),
        ("/compute/v1/projects/local-p/zones/mars", 404),
        ("/compute/v1/projects/local-p/regions/us-central1", 200),
        (f"{COMPUTE}/machineTypes/e2-small", 200),
        (f"{COMPUTE}/machineTypes/e2-huge", 404),
        ("/compute/v1/projects/debian-cloud/global/images/family/debian-12", 200),
        ("/compute/v1/projects/debian-cloud/zones/-/imageFamilyViews/debian-12", 200),
        ("/compute/v1/projects/local-p/global/networks/default", 200),
    ],
)
def test_the_surroundings_that_clients_ask_about_are_there(talk, path, status):
    assert talk.call("GET", path)[0] == status


def test_a_project_tells_its_number(talk):
    project = talk.call("GET", "/compute/v1/projects/local-p")[1]
    assert project["id"].isdigit()
    assert project["defaultServiceAccount"] == f"{project['id']}-compute@developer.gserviceaccount.com"
    assert "fingerprint" in project["commonInstanceMetadata"]


def test_a_maximal_run_time_is_over_with_the_run(talk):
    talk.vm("vm1", scheduling={"maxRunDuration": {"seconds": "60"}, "instanceTerminationAction": "DELETE"})
    talk.call("POST", f"{INSTANCES}/vm1/stop")
    talk.wait(100)
    assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "TERMINATED"


def test_an_absolute_termination_time_keeps_a_stopped_instance_from_starting_again(talk):
    limit = {"terminationTime": timestamp(START + 60), "instanceTerminationAction": "STOP"}
    talk.vm("vm1", scheduling=limit)
    shown = talk.call("GET", f"{INSTANCES}/vm1")[1]
    assert shown["resourceStatus"]["scheduling"]["terminationTimestamp"] == timestamp(START + 60)
    talk.wait(60)
    stopped = talk.call("GET", f"{INSTANCES}/vm1")[1]
    assert (stopped["status"], "resourceStatus" in stopped) == ("TERMINATED", False)
    status, reply = talk.call("POST", f"{INSTANCES}/vm1/start")
    assert (status, "The time has passed" in reply["error"]["message"]) == (400, True)


def test_a_maximal_run_time_counts_anew_from_each_start(talk):
    limit = {"maxRunDuration": {"seconds": "60"}, "instanceTerminationAction": "STOP"}
    talk.vm("vm1", scheduling=limit)
    for _ in range(2):
        talk.wait(50)
        assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "RUNNING"
        talk.wait(15)
        assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "TERMINATED"
        assert talk.call("POST", f"{INSTANCES}/vm1/start")[0] == 200
        talk.wait(1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"labels": {"Owner": "x"}}, "resource.labels"),
        ({"labels": {"1st": "x"}}, "resource.labels"),
        ({"labels": {"owner": "me@x"}}, "resource.labels"),
        ({"labels": {"owner": "x" * 64}}, "resource.labels"),
        ({"labels": {f"k{number}": "" for number in range(65)}}, "resource.labels"),
        ({"disks": [{"initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-99"}}]},
         "resource.disks[0].initializeParams.sourceImage"),
        ({"scheduling": {"provisioningModel": "SPOT", "onHostMaintenance": "MIGRATE"}},
         "resource.scheduling.onHostMaintenance"),
        ({"machineType": "zones/us-central1-a/machineTypes/e2-huge"}, "resource.machineType"),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_refused_by_its_field(talk, fields, field):
    status, reply = talk.call("POST", INSTANCES, instance("vm1", **fields))
    assert (status, reply["error"]["errors"][0]["reason"]) == (400, "invalid")
    assert f"Invalid value for field '{field}'" in reply["error"]["message"]
    assert talk.call("GET", f"{INSTANCES}/vm1")[0] == 404


@pytest.mark.parametrize(
    "image",
    [
        "projects/debian-cloud/global/images/family/debian-12",
        "https://compute.googleapis.com/compute/v1/projects/debian-cloud/zones/-/imageFamilyViews/debian-12",
        "projects/debian-cloud/global/images/debian-12-bookworm-v20251014",
        "projects/somebody/global/images/family/theirs",
    ],
)
def test_images_are_named_in_every_form(talk, image):
    labels = {"owner": "mueller-\u00e4", "n": ""}
    disks = [{"boot": True, "initializeParams": {"sourceImage": image}}]
    assert talk.call("POST", INSTANCES, instance("vm1", disks=disks, labels=labels))[0] == 200


@pytest.mark.parametrize(
    ("verb", "path", "body", "query"),
    [
        ("POST", f"{INSTANCES}/vm1/stop", b"", {}),
        ("POST", f"{INSTANCES}/vm1/reset", b"", {}),
        ("DELETE", f"{INSTANCES}/vm1", b"", {}),
        ("POST", f"{INSTANCES}/vm1/setLabels", {"labels": {"a": "b"}, "labelFingerprint": ""}, {}),
        ("POST", f"{COMPUTE}/disks", {"name": "d1"}, {}),
        ("POST", FIREWALLS, {"name": "f", "allowed": [{"IPProtocol": "tcp"}]}, {}),
    ],
)  # fmt: skip
def test_a_change_that_is_sent_twice_with_one_request_id_is_made_once(talk, verb, path, body, query):
    vm = talk.vm()
    if isinstance(body, dict) and "labelFingerprint" in body:
        body = {**body, "labelFingerprint": vm["labelFingerprint"]}
    answers = []
    for _ in range(2):
        answers.append(talk.call(verb, path, body, requestId="u1", **query))
        talk.wait()
    assert [status for status, _ in answers] == [200, 200]
    assert answers[0][1]["name"] == answers[1][1]["name"]
    again = talk.call(verb, path, body, requestId="u2", **query)[0]
    assert (again == 200) == path.endswith(("stop", "reset")), again


def test_a_machine_type_that_is_not_offered_any_more_makes_no_instance(talk):
    talk.call("POST", "/_cloud/project", {"lacks": ["e2-small"]})
    assert talk.call("POST", INSTANCES, instance("vm1"))[0] == 400
    listed = talk.call("GET", f"{COMPUTE}/machineTypes")[1]["items"]
    assert "e2-small" not in {each["name"] for each in listed}


def test_a_late_failure_of_an_end_meets_an_instance_whose_time_has_come_meanwhile():
    failure = {"code": "INTERNAL_ERROR", "message": "x"}
    script = [
        {"on": {"method": f"compute.instances.{verb}"}, "do": {"fail_operation": failure}}
        for verb in ("stop", "delete")
    ]
    for verb, path in (("POST", f"{INSTANCES}/vm1/stop"), ("DELETE", f"{INSTANCES}/vm1")):
        talk = Talk(script)
        limit = {"terminationTime": timestamp(START + 60), "instanceTerminationAction": "STOP"}
        talk.vm("vm1", scheduling=limit)
        talk.wait(57.9)
        assert talk.call(verb, path)[0] == 200
        talk.wait(5)
        assert talk.call("GET", f"{INSTANCES}/vm1")[1]["status"] == "TERMINATED"


def test_a_network_that_is_not_there_has_no_instances(talk):
    talk.call("POST", "/_cloud/project", {"networks": ["mine"]})
    status, reply = talk.call("POST", INSTANCES, instance("vm1"))
    assert (status, "networkInterfaces[0].network" in reply["error"]["message"]) == (400, True)
    named = [{"network": "global/networks/mine"}, {"subnetwork": "regions/us-central1/subnetworks/x"}]
    for number, interface in enumerate(named):
        wanted = instance(f"vm{number}", networkInterfaces=[interface])
        assert talk.call("POST", INSTANCES, wanted)[0] == 200
