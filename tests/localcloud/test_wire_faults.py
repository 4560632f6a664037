"""Faults over the wire: every kind that strikes a machine fires on a real one, and calls whose answers never arrive."""

import contextlib
import http.client
import json
import time
from urllib.parse import urlsplit

import pytest

from tests.localcloud.talk import instance
from tests.localcloud.test_wire_machines import NODES, Machine, until
from tpuops.localcloud.core import script

pytestmark = pytest.mark.wire
V3 = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
COMPUTE = "/compute/v1/projects/local-tests/zones/us-central1-a"
UPLOAD = "/upload/storage/v1/b/bkt/o?uploadType=media&name=o&ifGenerationMatch=0"
PROGRAMS = ("to-kill", "to-hang", "to-hold")
DEEDS = {
    "kill": "to-kill",
    "hang": "to-hang",
    "device_held": "to-hold",
    "device_fault": {"message": "x"},
    "ssh_delay": {"delay_s": 0.1},
    "key_delay": {"for_s": 0.1},
    "disk_full": {"for_s": 0.1},
    "slow_disk": {"delay_s": 0.1, "for_s": 0.1},
    "slow_network": {"delay_s": 0.1, "for_s": 0.1},
    "ssh_drop": {"for_s": 0.1},
    "unhealthy": {"for_s": 0.1},
    "maintenance": {"notice_s": 0.1},
    "node_state": {"state": "RESTARTING", "for_s": 0.1},
    "preempt": {"notice_s": 0.1},
}

SEEN = {
    "kill": "! pgrep -f ^to-kill",
    "hang": "grep -q '^State:.T' /proc/$(pgrep -f ^to-hang)/status",
    "device_held": "! pgrep -f ^to-hold",
}
"""What the machine shows once it has carried out the order; the others are carried out at once."""


def test_every_kind_that_strikes_a_machine_fires_on_a_real_one(cloud, tmp_path):
    assert set(DEEDS) == script.MACHINE_DEEDS
    machine = Machine(cloud, tmp_path)
    for name in PROGRAMS:
        assert machine.run(f"setsid bash -c 'exec -a {name} sleep 1000' >/dev/null 2>&1 </dev/null &").returncode == 0
    for name in PROGRAMS:
        until(lambda name=name: machine.run(f"pgrep -f ^{name}").returncode == 0)
    for number, (kind, value) in enumerate(DEEDS.items()):
        until(lambda: cloud.ask("GET", f"{NODES}/n1")["state"] == "READY")
        until(lambda: [found["booted"] for found in cloud.status()["machines"]] == [True])
        cloud.add_faults([{"on": {"after_s": 0}, "do": {kind: value}}])
        until(lambda number=number: cloud.faults()[number]["fired_at"])
        if kind in script.ORDERS:
            seen = SEEN.get(kind, "sleep 0.3")
            until(lambda seen=seen: machine.run(seen).returncode == 0)
        if kind in {"maintenance", "node_state"}:
            until(lambda: [found["booted"] for found in cloud.status()["machines"]] != [True])
    until(lambda: cloud.ask("GET", f"{NODES}/n1")["state"] == "PREEMPTED")
    assert [fault for fault in cloud.faults() if fault["fired_at"] is None or "missed" in fault] == []
    assert cloud.status()["machines"] == []


def ask(cloud, verb, path, body=None, timeout_s=0.4):
    """Status and JSON of one call, by a client with little patience."""
    there = urlsplit(cloud.url)
    with contextlib.closing(http.client.HTTPConnection(there.netloc, timeout=timeout_s)) as connection:
        connection.request(verb, there.path + path, None if body is None else json.dumps(body))
        said = connection.getresponse()
        return said.status, json.loads(said.read())


@pytest.mark.parametrize("deed", [{"lose_reply": True}, {"delay_s": 2.0}])
@pytest.mark.parametrize(
    ("method", "sent", "again", "found"),
    [
        ("tpu.nodes.create", (f"{NODES}?nodeId=n1", V3), 409, f"{NODES}/n1"),
        ("compute.instances.insert", (f"{COMPUTE}/instances", instance("vm1")), 409, f"{COMPUTE}/instances/vm1"),
        ("storage.objects.insert", (UPLOAD, "mine"), 412, "/storage/v1/b/bkt/o/o"),
    ],
)
def test_what_was_done_stays_done_where_the_answer_is_lost_or_comes_after_the_client_gave_up(
    shared_cloud, deed, method, sent, again, found
):
    shared_cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bkt"})
    shared_cloud.add_faults([{"on": {"method": method}, "do": deed}])
    with pytest.raises((TimeoutError, ConnectionError, http.client.HTTPException)):
        ask(shared_cloud, "POST", *sent)
    assert shared_cloud.faults()[0]["fired_at"]
    assert ask(shared_cloud, "POST", *sent)[0] == again
    status, there = ask(shared_cloud, "GET", found)
    assert (status, there["name"].rpartition("/")[2] in {"n1", "vm1", "o"}) == (200, True)
    assert [entry["status"] for entry in shared_cloud.requests(method=method)] == [200, again]


@pytest.mark.parametrize(("deed", "comes"), [("broken_stream", False), ("stalled_stream", True)])
def test_an_answer_breaks_off_or_stands_still_where_the_script_says(shared_cloud, deed, comes):
    whole, there = b"x" * 600_000, urlsplit(shared_cloud.url)
    shared_cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bkt"})
    with contextlib.closing(http.client.HTTPConnection(there.netloc)) as connection:
        connection.request("POST", there.path + UPLOAD, whole)
        connection.getresponse().read()
    how = {"after_bytes": 262_144} | ({"for_s": 0.3} if comes else {})
    shared_cloud.add_faults([{"on": {"method": "storage.objects.get"}, "do": {deed: how}}])
    for expected, least_s in ((600_000 if comes else 262_144, 0.3 * comes), (600_000, 0.0)):
        started = time.monotonic()
        with contextlib.closing(http.client.HTTPConnection(there.netloc)) as connection:
            connection.request("GET", f"{there.path}/download/storage/v1/b/bkt/o/o?alt=media")
            said = connection.getresponse()
            try:
                came = said.read()
            except http.client.IncompleteRead as broken:
                came = broken.partial
        assert (said.status, said.headers["Content-Length"], len(came)) == (200, "600000", expected)
        assert time.monotonic() - started >= least_s
    entries = shared_cloud.requests(method="storage.objects.get")
    assert [entry.get("lost", False) for entry in entries] == [not comes, False]


def test_a_request_id_tells_a_change_whose_answer_was_lost(shared_cloud):
    shared_cloud.add_faults([{"on": {"method": "compute.instances.insert"}, "do": {"lose_reply": True}}])
    path = f"{COMPUTE}/instances?requestId=b5c1c0ae-0000-4000-8000-000000000001"
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(shared_cloud, "POST", path, instance("vm1"))
    status, operation = ask(shared_cloud, "POST", path, instance("vm1"))
    assert (status, operation["targetLink"].endswith("/instances/vm1")) == (200, True)
    assert len(shared_cloud.status()["instances"]) == 1
