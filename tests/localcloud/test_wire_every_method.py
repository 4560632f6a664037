"""Every method of the embedded cloud is called by a client of Google's, and answers well, in published messages alone.

What was called is read from the cloud's own request log; a route that is added without a client that calls it fails.
The parts below `every_method` know the clients. Google's libraries read replies leniently; here they are made strict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.cloud import compute_v1
from google.protobuf import json_format

from tests.cloud_fixture import LocalCloud
from tests.localcloud.every_method import compute, identity, storage, surroundings, tpu
from tests.localcloud.every_method.sdk import Sdk
from tpuops.localcloud import coverage
from tpuops.localcloud.core.table import ROUTES

pytestmark = [pytest.mark.wire, pytest.mark.gcloud, pytest.mark.timeout(300)]
QUOTA = {"TPUV4PodPerProjectPerZoneForTPUAPI": 8}
NO_CLIENT = {
    "identity.tokeninfo": "people ask it with curl; no library of Google's that is installed does",
    "metadata.put": "written by a machine's guest agent, with a plain PUT",
    "metadata.osLoginUsers": "asked by the name service of a machine",
    "metadata.osLoginAuthorize": "asked by sshd of a machine",
    "storage.objects.cancelUpload": "documented for uploads that broke; no library calls it",
}
"""Methods that are called here as documented, but by no client of Google's."""
ELSEWHERE = {
    "iap.tunnelInstances.accessViaIAP": "a WebSocket, which gcloud's tunnel opens in tests/lifecycle/test_reach.py",
}
WELL = frozenset({*range(200, 400), 499})
"""499 is what a cancelled upload is answered with."""


def strict(text: Any, message: Any, **_: Any) -> Any:
    """As json_format.Parse, but a field that the message does not have is an error."""
    return PARSE(text, message)


PARSE = json_format.Parse


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """What the cloud's log says after every client has called all it can."""
    scratch = tmp_path_factory.mktemp("every-method")
    cloud = LocalCloud(scratch / "cloud", "--seed", "1", "--no-machines")
    cloud.start()
    sdk = Sdk(cloud.url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_format, "Parse", strict)
        patch.setenv("NO_GCE_CHECK", "true")
        try:
            cloud.ask("POST", "/_cloud/project", {"quotas": QUOTA})
            storage.call_all(cloud)
            storage.call_all_as_gcloud(sdk)
            surroundings.call_all(sdk)
            tpu.call_all(cloud)
            tpu.call_all_of_alpha(cloud, sdk)
            compute.call_all(cloud)
            compute.Compute(cloud.url)("instances.insert", **compute.ZONE, instance_resource=compute.BODY)
            identity.call_all(cloud, scratch)
            yield cloud.requests()
        finally:
            sdk.close()
            cloud.stop()


def test_every_route_is_called_by_a_client_and_answers_well(log):
    called = set()
    for entry in log:
        found = ROUTES.find(entry["verb"], entry["path"])
        if found is not None and entry["status"] in WELL:
            called.add((found[0].verb, found[0].template))
    googles = [route for route in ROUTES.all if route.service != "cloud" and route.method not in ELSEWHERE]
    assert [f"{route.verb} {route.template}" for route in googles if (route.verb, route.template) not in called] == []


def test_nothing_went_wrong_that_a_client_did_not_expect(log):
    assert [entry for entry in log if entry["status"] not in WELL] == []


def test_what_no_client_calls_is_named_with_a_reason_and_exists():
    methods = {route.method for route in ROUTES.all}
    assert {*NO_CLIENT, *ELSEWHERE} <= methods
    assert len(NO_CLIENT) + len(ELSEWHERE) <= 6


def test_the_table_of_coverage_names_what_was_called(log):
    rows = set(re.findall(r"^\| ([\w.]+) \|", coverage.table(), re.MULTILINE))
    assert {entry["method"] for entry in log} <= rows


@pytest.mark.parametrize("reply", ['{"nmae": "x"}', '{"status": "RUNING"}'])
def test_a_reply_with_something_unpublished_in_it_is_refused(reply):
    with pytest.raises(json_format.ParseError):
        strict(reply, compute_v1.Operation.pb(compute_v1.Operation()), ignore_unknown_fields=True)
