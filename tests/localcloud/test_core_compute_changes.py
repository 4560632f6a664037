"""Changes to instances besides their life, disks, firewalls and the project's own metadata, in virtual time."""

import pytest
from google.cloud import compute_v1
from google.protobuf import json_format

from tests.localcloud.talk import COMPUTE, INSTANCES, Talk, instance
from tpuops.localcloud.core.events import Control, StartMachine, StopMachine

PROJECT = "/compute/v1/projects/local-p"
GLOBAL = f"{PROJECT}/global"
GOOGLE = {"metadata-flavor": "Google"}
LIMITED = {"maxRunDuration": {"seconds": "60"}, "instanceTerminationAction": "DELETE"}


def described(talk):
    return talk.call("GET", f"{INSTANCES}/vm1")[1]


def reason(answer):
    return answer[0], answer[1]["error"]["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("verb", "body", "field", "wanted"),
    [
        ("setScheduling", LIMITED, "scheduling", {"instanceTerminationAction": "DELETE"}),
        (
            "setServiceAccount",
            {"email": "me@x", "scopes": ["s"]},
            "serviceAccounts",
            [{"email": "me@x", "scopes": ["s"]}],
        ),
        ("setMachineType", {"machineType": "zones/us-central1-a/machineTypes/e2-medium"}, "machineType", "e2-medium"),
    ],
)
def test_what_only_a_stopped_instance_lets_change(talk, verb, body, field, wanted):
    talk.vm()
    assert reason(talk.call("POST", f"{INSTANCES}/vm1/{verb}", body)) == (400, "resourceNotReady")
    talk.call("POST", f"{INSTANCES}/vm1/stop")
    talk.wait()
    assert talk.call("POST", f"{INSTANCES}/vm1/{verb}", body)[0] == 200
    found = described(talk)[field]
    if isinstance(found, dict):
        assert found.items() >= wanted.items()
    else:
        assert found == wanted or found.endswith(f"/{wanted}")


def test_a_time_limit_set_while_stopped_counts_from_the_next_start(talk):
    talk.vm()
    talk.call("POST", f"{INSTANCES}/vm1/stop")
    talk.wait()
    talk.call("POST", f"{INSTANCES}/vm1/setScheduling", LIMITED)
    talk.wait(100)
    talk.call("POST", f"{INSTANCES}/vm1/start")
    talk.wait(50)
    assert described(talk)["status"] == "RUNNING"
    talk.wait(20)
    assert talk.call("GET", f"{INSTANCES}/vm1")[0] == 404


def test_a_new_account_is_the_machines_after_the_next_start(talk):
    vm = talk.vm()
    talk.call("POST", f"{INSTANCES}/vm1/stop")
    talk.wait()
    talk.call("POST", f"{INSTANCES}/vm1/setServiceAccount", {"email": "me@x", "scopes": ["s"]})
    talk.call("POST", f"{INSTANCES}/vm1/start")
    talk.wait()
    path = f"/m/{vm['id']}/computeMetadata/v1/instance/service-accounts/default/scopes"
    assert talk.raw("GET", path, b"", GOOGLE).body == b"s\n"


def test_tags_need_their_fingerprint(talk):
    talk.vm()
    body = {"items": ["a"], "fingerprint": described(talk)["tags"]["fingerprint"]}
    assert talk.call("POST", f"{INSTANCES}/vm1/setTags", body)[0] == 200
    assert described(talk)["tags"]["items"] == ["a"]
    assert reason(talk.call("POST", f"{INSTANCES}/vm1/setTags", body)) == (412, "conditionNotMet")


def test_a_protected_instance_is_not_deleted(talk):
    talk.vm()
    talk.call("POST", f"{INSTANCES}/vm1/setDeletionProtection")
    assert reason(talk.call("DELETE", f"{INSTANCES}/vm1")) == (400, "invalidResourceUsage")
    talk.call("POST", f"{INSTANCES}/vm1/setDeletionProtection", deletionProtection="false")
    assert talk.call("DELETE", f"{INSTANCES}/vm1")[0] == 200


def test_a_reset_boots_the_machine_again_and_the_serial_port_says_so(talk):
    talk.vm()
    talk.call("POST", f"{INSTANCES}/vm1/reset")
    assert [type(event) for event in talk.events[-2:]] == [StopMachine, StartMachine]
    said = talk.call("GET", f"{INSTANCES}/vm1/serialPort")[1]
    assert said["contents"].splitlines() == ["vm1: boot 1", "vm1: boot 2"]
    assert talk.call("GET", f"{INSTANCES}/vm1/serialPort", start=said["next"])[1]["contents"] == ""


def test_a_disk_is_made_attached_and_only_deleted_when_it_is_free(talk):
    talk.vm()
    assert talk.call("POST", f"{COMPUTE}/disks", {"name": "d1", "sizeGb": "10"})[0] == 200
    assert reason(talk.call("POST", f"{COMPUTE}/disks", {"name": "d1"})) == (409, "alreadyExists")
    assert reason(talk.call("POST", f"{COMPUTE}/disks", {"name": "D"})) == (400, "invalid")
    attach = {"source": "zones/us-central1-a/disks/d1", "deviceName": "dev"}
    assert talk.call("POST", f"{INSTANCES}/vm1/attachDisk", attach)[0] == 200
    assert [disk["deviceName"] for disk in described(talk)["disks"]] == ["persistent-disk-0", "dev"]
    assert reason(talk.call("POST", f"{INSTANCES}/vm1/attachDisk", attach)) == (400, "resourceInUseByAnotherResource")
    assert reason(talk.call("DELETE", f"{COMPUTE}/disks/d1")) == (400, "resourceInUseByAnotherResource")
    assert talk.call("POST", f"{INSTANCES}/vm1/detachDisk", deviceName="dev")[0] == 200
    assert reason(talk.call("POST", f"{INSTANCES}/vm1/detachDisk", deviceName="dev")) == (400, "invalid")
    assert reason(talk.call("POST", f"{COMPUTE}/disks/d1/resize", {"sizeGb": "5"})) == (400, "invalid")
    assert talk.call("POST", f"{COMPUTE}/disks/d1/resize", {"sizeGb": "20"})[0] == 200
    assert talk.call("GET", f"{COMPUTE}/disks/d1")[1]["sizeGb"] == "20"
    assert talk.call("DELETE", f"{COMPUTE}/disks/d1")[0] == 200
    assert reason(talk.call("GET", f"{COMPUTE}/disks/d1")) == (404, "notFound")


def test_firewall_rules_are_kept_as_they_were_given(talk):
    rules = f"{GLOBAL}/firewalls"
    assert "default-allow-ssh" in [rule["name"] for rule in talk.call("GET", rules)[1]["items"]]
    body = {"name": "f1", "allowed": [{"IPProtocol": "tcp", "ports": ["8476"]}], "sourceRanges": ["10.0.0.0/8"]}
    operation = talk.call("POST", rules, body)[1]
    assert reason(talk.call("POST", rules, body)) == (409, "alreadyExists")
    assert reason(talk.call("POST", rules, {"name": "f2"})) == (400, "required")
    assert talk.call("POST", f"{GLOBAL}/operations/{operation['name']}/wait")[1]["status"] == "RUNNING"
    talk.wait()
    assert talk.call("GET", f"{GLOBAL}/operations/{operation['name']}")[1]["status"] == "DONE"
    talk.call("PATCH", f"{rules}/f1", {"disabled": True})
    found = talk.call("GET", f"{rules}/f1")[1]
    assert (found["disabled"], found["sourceRanges"]) == (True, ["10.0.0.0/8"])
    talk.call("DELETE", f"{rules}/f1")
    talk.call("DELETE", f"{rules}/default-allow-ssh")
    assert not {"f1", "default-allow-ssh"} & {rule["name"] for rule in talk.call("GET", rules)[1]["items"]}


def test_the_projects_keys_open_every_machine_that_does_not_keep_them_out(talk):
    vm = talk.vm("vm1", metadata={"items": [{"key": "ssh-keys", "value": "me:own"}]})
    talk.vm("vm2", metadata={"items": [{"key": "block-project-ssh-keys", "value": "TRUE"}]})
    mark = talk.call("GET", PROJECT)[1]["commonInstanceMetadata"]["fingerprint"]
    body = {"fingerprint": mark, "items": [{"key": "ssh-keys", "value": "you:all"}]}
    assert talk.call("POST", f"{PROJECT}/setCommonInstanceMetadata", body)[0] == 200
    assert reason(talk.call("POST", f"{PROJECT}/setCommonInstanceMetadata", body)) == (412, "conditionNotMet")
    told = {event.id: event.order["metadata"].get("ssh-keys") for event in talk.events if isinstance(event, Control)}
    assert told[vm["id"]] == "me:own\nyou:all"
    assert [keys for machine, keys in told.items() if machine != vm["id"]] == [None]
    talk.vm("old", metadata={"items": [{"key": "sshKeys", "value": "me:legacy"}]})
    assert "ssh-keys" not in talk.events[-1].machine.metadata  # the legacy key replaces the project's
    talk.vm("vm3")
    assert talk.events[-1].machine.metadata["ssh-keys"] == "you:all"
    inside = f"/m/{vm['id']}/computeMetadata/v1"
    assert talk.raw("GET", f"{inside}/project/attributes/ssh-keys", b"", GOOGLE).body == b"you:all"
    assert talk.raw("GET", f"{inside}/instance/attributes/ssh-keys", b"", GOOGLE).body == b"me:own"


def test_a_late_failure_can_hit_any_change():
    failure = {"code": "INTERNAL_ERROR", "message": "x"}
    talk = Talk([{"on": {"method": "compute.disks.insert"}, "do": {"fail_operation": failure}}])
    operation = talk.call("POST", f"{COMPUTE}/disks", {"name": "d1"})[1]
    talk.wait()
    assert (
        talk.call("GET", f"{COMPUTE}/operations/{operation['name']}")[1]["error"]["errors"][0]["code"]
        == "INTERNAL_ERROR"
    )


def test_every_field_of_a_reply_is_one_of_the_published_message(talk):
    talk.vm()
    talk.call("POST", f"{COMPUTE}/disks", {"name": "d1"})
    pages = {
        f"{COMPUTE}/disks/d1": compute_v1.Disk,
        f"{COMPUTE}/diskTypes": compute_v1.DiskTypeList,
        f"{COMPUTE}/diskTypes/pd-ssd": compute_v1.DiskType,
        f"{PROJECT}/aggregated/disks": compute_v1.DiskAggregatedList,
        f"{PROJECT}/aggregated/operations": compute_v1.OperationAggregatedList,
        f"{PROJECT}/aggregated/subnetworks": compute_v1.SubnetworkAggregatedList,
        f"{PROJECT}/aggregated/addresses": compute_v1.AddressAggregatedList,
        f"{PROJECT}/aggregated/machineTypes": compute_v1.MachineTypeAggregatedList,
        f"{PROJECT}/regions/us-central1/subnetworks/default": compute_v1.Subnetwork,
        f"{PROJECT}/regions/us-central1/subnetworks": compute_v1.SubnetworkList,
        f"{PROJECT}/regions/us-central1/addresses": compute_v1.AddressList,
        f"{GLOBAL}/firewalls": compute_v1.FirewallList,
        f"{GLOBAL}/firewalls/default-allow-ssh": compute_v1.Firewall,
        f"{GLOBAL}/operations": compute_v1.OperationList,
        f"{INSTANCES}/vm1/serialPort": compute_v1.SerialPortOutput,
    }
    for path, message in pages.items():
        status, reply = talk.call("GET", path)
        assert status == 200, path
        json_format.ParseDict(reply, message.pb()(), ignore_unknown_fields=False)


def test_what_is_not_there_is_not_found(talk):
    assert talk.call("POST", INSTANCES, instance("vm1"))[0] == 200
    for path in (
        f"{COMPUTE}/disks/d9",
        f"{COMPUTE}/diskTypes/x",
        f"{GLOBAL}/firewalls/x",
        f"{PROJECT}/regions/us-central1/subnetworks/x",
        f"{GLOBAL}/operations/x",
    ):
        assert reason(talk.call("GET", path)) == (404, "notFound")
