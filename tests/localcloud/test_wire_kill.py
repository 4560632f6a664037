"""The cloud is killed while everything is being written, again and again: what it has acknowledged is there."""

import json
import random
import threading
import time

import pytest

from tests.localcloud.test_wire_machines import Machine, until

pytestmark = pytest.mark.wire
ZONE = "/v2/projects/local-tests/locations/us-central1-a"
COMPUTE = "/compute/v1/projects/local-tests/zones/us-central1-a"
UPLOAD = "/upload/storage/v1/b/bkt/o?uploadType=media&name="
V3 = {"acceleratorType": "v3-8", "runtimeVersion": "r"}
ROUNDS = 4


def test_what_was_read_is_in_the_log_a_moment_later_also_after_a_kill(bare_cloud):
    for _ in range(2):  # the first one is the first to name the project, which is remembered at once
        bare_cloud.ask("GET", f"{ZONE}/nodes")
    time.sleep(1.0)
    bare_cloud.kill()
    bare_cloud.start()
    assert [entry["method"] for entry in bare_cloud.requests()] == ["tpu.nodes.list"] * 2


class Load:
    """Writers and what was acknowledged to them. `count` is one object, written over and over; `gone`: deletions."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.acknowledged = {kind: [] for kind in ("object", "node", "instance", "queue", "gone", "count")}
        self.ended = threading.Event()
        self.generation = "0"

    def run(self, number, chance):
        """One round: write until the cloud is killed under the writers' hands."""
        self.ended.clear()
        kinds = (self.object, self.node, self.instance, self.queue, self.gone, self.count)
        writers = [
            threading.Thread(target=self.write, args=(kind, f"r{number}-{lane}")) for kind in kinds for lane in "ab"
        ]
        seen = self.total()
        for writer in writers:
            writer.start()
        until(lambda: self.total() >= seen + 30)
        time.sleep(chance.uniform(0, 0.3))
        self.cloud.kill()
        self.ended.set()
        for writer in writers:
            writer.join()

    def total(self):
        return sum(len(names) for names in self.acknowledged.values())

    def write(self, kind, lane):
        number = 0
        while not self.ended.is_set():
            number += 1
            try:
                kind(f"{lane}-{number}")
            except OSError:  # also an answer such as 412: neither is an acknowledgement
                time.sleep(0.01)

    def object(self, name):
        self.cloud.ask("POST", f"{UPLOAD}{name}", {"name": name})
        self.acknowledged["object"].append(name)

    def node(self, name):
        self.cloud.ask("POST", f"{ZONE}/nodes?nodeId={name}", V3)
        self.acknowledged["node"].append(name)

    def queue(self, name):
        spec = {"parent": ZONE.removeprefix("/v2/"), "nodeId": f"of-{name}", "node": V3}
        self.cloud.ask("POST", f"{ZONE}/queuedResources?queuedResourceId={name}", {"tpu": {"nodeSpec": [spec]}})
        self.acknowledged["queue"].append(name)

    def gone(self, name):
        self.cloud.ask("POST", f"{UPLOAD}gone-{name}", {"name": name})
        self.cloud.ask("DELETE", f"/storage/v1/b/bkt/o/gone-{name}")
        self.acknowledged["gone"].append(f"gone-{name}")

    def instance(self, name):
        body = {
            "name": name,
            "machineType": "zones/us-central1-a/machineTypes/e2-small",
            "disks": [{"boot": True}],
            "networkInterfaces": [{}],
        }
        self.cloud.ask("POST", f"{COMPUTE}/instances", body)
        self.acknowledged["instance"].append(name)

    def count(self, name):
        path = f"{UPLOAD}count&ifGenerationMatch={self.generation}"
        made = self.cloud.ask("POST", path, {"name": name})
        self.generation = made["generation"]
        self.acknowledged["count"].append(made["generation"])


def test_no_acknowledged_object_node_or_instance_is_lost_to_a_kill(bare_cloud):
    bare_cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bkt"})
    load, chance = Load(bare_cloud), random.Random(4)
    for number in range(ROUNDS):
        load.run(number, chance)
        bare_cloud.start()
        count = bare_cloud.ask("GET", "/storage/v1/b/bkt/o/count")
        assert int(count["generation"]) >= max(map(int, load.acknowledged["count"]))
        load.generation = count["generation"]
    nodes = {node["name"].rsplit("/", 1)[1] for node in bare_cloud.status()["nodes"]}
    instances = {instance["name"].rsplit("/", 1)[1] for instance in bare_cloud.status()["instances"]}
    assert set(load.acknowledged["node"]) <= nodes
    assert set(load.acknowledged["instance"]) <= instances
    queued = bare_cloud.ask("GET", f"{ZONE}/queuedResources?pageSize=1000")["queuedResources"]
    assert set(load.acknowledged["queue"]) <= {found["name"].rsplit("/", 1)[1] for found in queued}
    objects = {found["name"] for found in bare_cloud.ask("GET", "/storage/v1/b/bkt/o")["items"]}
    assert not set(load.acknowledged["gone"]) & objects
    assert set(load.acknowledged["object"]) <= objects
    for name in load.acknowledged["object"]:
        assert bare_cloud.ask("GET", f"/storage/v1/b/bkt/o/{name}?alt=media") == {"name": name}
    assert all(len(names) >= ROUNDS for names in load.acknowledged.values()), load.acknowledged
    until(lambda: {node["state"] for node in bare_cloud.status()["nodes"]} == {"READY"})
    until(lambda: {instance["status"] for instance in bare_cloud.status()["instances"]} == {"RUNNING"})


def test_machines_are_found_again_with_their_disks_after_a_kill(cloud, tmp_path):
    machine = Machine(cloud, tmp_path)
    assert machine.run("echo kept > note; sync").returncode == 0
    before = cloud.status()["machines"]
    for _ in range(2):
        cloud.kill()
        cloud.start()
        until(lambda: [found["booted"] for found in cloud.status()["machines"]] == [True])
        assert machine.run("cat note").stdout == "kept\n"
    assert cloud.status()["machines"] == before
    shown = json.dumps(cloud.ask("GET", f"{ZONE}/nodes/n1"))
    assert '"READY"' in shown
