"""Organisation policies: what each constraint refuses, in the words of the service, and what it lets through."""

import pytest

from tests.localcloud.talk import INSTANCES, NODES, ZONE, instance
from tpuops.localcloud.core import constraints

BUCKETS = "/storage/v1/b"
PRIVATE = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}}
V3 = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
OPEN = [{"accessConfigs": [{"name": "x"}]}]
FALSE = {"key": "enable-oslogin", "value": "FALSE"}
QUEUES = f"{ZONE}/queuedResources"


def queued(**node):
    spec = {"parent": "projects/local-p/locations/us-central1-a", "nodeId": "n", "node": {**V3, **node}}
    return {"tpu": {"nodeSpec": [spec]}}


def hold(talk, **stated):
    names = {name.rpartition(".")[2]: name for name in constraints.KNOWN}
    assert talk.call("POST", "/_cloud/constraints", {names[name]: value for name, value in stated.items()})[0] == 200


def said(answer):
    status, reply = answer
    return status, reply["error"]["message"] if status >= 400 else ""


@pytest.mark.parametrize(
    ("stated", "path", "body", "query", "answer"),
    [
        ({"vmExternalIpAccess": True}, INSTANCES, instance("v", networkInterfaces=OPEN), {}, (412,
         "Constraint constraints/compute.vmExternalIpAccess violated for project ")),
        ({"vmExternalIpAccess": True}, NODES, {**V3, "networkConfig": {"enableExternalIps": True}},
         {"nodeId": "n"}, (400, "Constraint constraints/compute.vmExternalIpAccess violated for project ")),
        ({"vmExternalIpAccess": True}, INSTANCES, instance("v", networkInterfaces=[{}]), {}, (200, "")),
        ({"resourceLocations": ["in:europe-west4-locations"]}, NODES, V3, {"nodeId": "n"}, (400,
         "Request violates constraint 'constraints/gcp.resourceLocations'")),
        ({"resourceLocations": ["europe-west4"]}, INSTANCES, instance("v"), {}, (412,
         "Request violates constraint 'constraints/gcp.resourceLocations'")),
        ({"resourceLocations": ["europe-west4"]}, QUEUES, queued(), {"queuedResourceId": "q"}, (400,
         "Request violates constraint 'constraints/gcp.resourceLocations'")),
        ({"resourceLocations": ["us-central1"]}, QUEUES, queued(), {"queuedResourceId": "q"}, (200, "")),
        ({"vmExternalIpAccess": True}, QUEUES, queued(networkConfig={"enableExternalIps": True}),
         {"queuedResourceId": "q"}, (400, "Constraint constraints/compute.vmExternalIpAccess violated for project ")),
        ({"vmExternalIpAccess": True}, QUEUES, queued(), {"queuedResourceId": "q"}, (200, "")),
        ({"requireOsLogin": True}, QUEUES, queued(metadata={"enable-oslogin": "FALSE"}),
         {"queuedResourceId": "q"}, (400, "Request violates constraint 'constraints/compute.requireOsLogin'")),
        ({"requireOsLogin": True}, QUEUES, queued(), {"queuedResourceId": "q"}, (200, "")),
        ({"requireOsLogin": True}, INSTANCES, instance("v", metadata={"items": [FALSE]}), {}, (412,
         "Request violates constraint 'constraints/compute.requireOsLogin'")),
        ({"resourceLocations": ["us-central1"]}, NODES, V3, {"nodeId": "n"}, (200, "")),
        ({"resourceLocations": ["europe-west4"]}, BUCKETS, {"name": "bkt"}, {"project": "local-p"}, (412,
         "'us' violates constraint 'constraints/gcp.resourceLocations'")),
        ({"uniformBucketLevelAccess": True}, BUCKETS, {"name": "bkt"}, {"project": "local-p"}, (412,
         "Request violates constraint 'constraints/storage.uniformBucketLevelAccess'")),
        ({"uniformBucketLevelAccess": True, "publicAccessPrevention": True}, BUCKETS,
         {"name": "bkt", **PRIVATE}, {"project": "local-p"}, (200, "")),
        ({"publicAccessPrevention": True}, BUCKETS,
         {"name": "bkt", "iamConfiguration": {"publicAccessPrevention": "inherited"}}, {"project": "local-p"}, (412,
         "Request violates constraint 'constraints/storage.publicAccessPrevention'")),
        ({"requireOsLogin": True}, NODES, {**V3, "metadata": {"enable-oslogin": "FALSE"}}, {"nodeId": "n"}, (400,
         "Request violates constraint 'constraints/compute.requireOsLogin'")),
        ({"requireOsLogin": True}, NODES, V3, {"nodeId": "n"}, (200, "")),
    ],
)  # fmt: skip
def test_a_constraint_refuses_what_it_forbids_and_nothing_else(talk, stated, path, body, query, answer):
    hold(talk, **stated)
    status, message = said(talk.call("POST", path, body, **query))
    assert (status, message[: len(answer[1])]) == answer
    hold(talk)
    if status >= 400:
        assert talk.call("POST", path, body, **query)[0] == 200


def test_where_guest_attributes_are_closed_nobody_reads_host_keys(talk):
    talk.node()
    hold(talk, disableGuestAttributesAccess=True)
    status, message = said(talk.call("POST", f"{NODES}/n1:getGuestAttributes", {}))
    assert (status, message) == (400, "Request violates constraint 'constraints/compute.disableGuestAttributesAccess'")
    talk.vm()
    assert said(talk.call("GET", f"{INSTANCES}/vm1/getGuestAttributes", queryPath="hostkeys/")) == (412, message)


def test_external_addresses_cannot_be_opened_later(talk):
    talk.node()
    hold(talk, vmExternalIpAccess=True)
    body = {"networkConfig": {"enableExternalIps": True}, "labels": {}}
    assert said(talk.call("PATCH", f"{NODES}/n1", body, updateMask="network_config.enable_external_ips"))[0] == 400
    assert talk.call("PATCH", f"{NODES}/n1", body, updateMask="labels")[0] == 200


def test_os_login_cannot_be_switched_off_later(talk):
    talk.node()
    vm = talk.vm()
    hold(talk, requireOsLogin=True)
    body = {"metadata": {"enable-oslogin": "FALSE"}}
    assert said(talk.call("PATCH", f"{NODES}/n1", body, updateMask="metadata"))[0] == 400
    written = {"items": [FALSE], "fingerprint": vm["metadata"]["fingerprint"]}
    assert said(talk.call("POST", f"{INSTANCES}/vm1/setMetadata", written))[0] == 412
    project = "/compute/v1/projects/local-p/setCommonInstanceMetadata"
    assert said(talk.call("POST", project, written))[0] == 412
    hold(talk)
    assert talk.call("PATCH", f"{NODES}/n1", body, updateMask="metadata")[0] == 200


def test_a_constraint_that_nobody_knows_is_refused(talk):
    for stated in ({"compute.nothing": True}, {"gcp.resourceLocations": True}, []):
        assert talk.call("POST", "/_cloud/constraints", stated)[0] == 400
