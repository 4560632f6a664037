"""The core's events carried out by real machines, and their notices heard: one node through its life."""

import shlex
import socket
import subprocess
import time

import pytest

from tests.cloud_fixture import LocalCloud

pytestmark = pytest.mark.wire
NODES = "/v2/projects/local-tests/locations/us-central1-a/nodes"


def until(true, patience_s=20.0):
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def host_keys(cloud, name="n1"):
    body = {"queryPath": "hostkeys/"}
    entries = cloud.ask("POST", f"{NODES}/{name}:getGuestAttributes", body).get("guestAttributes", [{}])
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


DIAL = """
import socket, urllib.request
def dial(host, port):
    try:
        socket.create_connection((host, port), 3).close()
        return "open"
    except OSError as error:
        return type(error).__name__
print([dial("127.0.0.1", {port}), dial("192.0.2.1", 80), dial("1.1.1.1", 53)])
import os
asked = urllib.request.Request("http://" + os.environ["GCE_METADATA_HOST"] + "/computeMetadata/v1/instance/zone")
asked.add_header("Metadata-Flavor", "Google")
print(urllib.request.urlopen(asked).read().decode())
print(len(urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/bkt/o/o?alt=media").read()))
"""


class Machine:
    """A node of one worker with a key of our own, and commands on it."""

    def __init__(self, cloud, folder, name="n1", **metadata):
        self.cloud, self.key = cloud, folder / f"key-{name}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        keys = {"ssh-keys": f"alice:{self.key.with_suffix('.pub').read_text().strip()}"}
        body = {"acceleratorType": "v3-8", "runtimeVersion": "r", "metadata": {**keys, **metadata}}
        cloud.ask("POST", f"{NODES}?nodeId={name}", body)
        until(lambda: cloud.ask("GET", f"{NODES}/{name}").get("state") == "READY")
        self.address = cloud.ask("GET", f"{NODES}/{name}")["networkEndpoints"][0]["ipAddress"]
        until(lambda: [m["booted"] for m in cloud.status()["machines"] if m["address"] == self.address] == [True])
        self.known = folder / f"known-{name}"
        self.known.write_text("".join(f"* ssh-ed25519 {key}\n" for key in host_keys(cloud, name)))

    def run(self, command, user="alice"):
        options = ("StrictHostKeyChecking=yes", f"UserKnownHostsFile={self.known}", "LogLevel=ERROR", "BatchMode=yes")
        argv = ["ssh", "-F", "none", "-i", self.key, "-p", str(self.cloud.ssh_port)]
        argv += [word for option in options for word in ("-o", option)]
        return subprocess.run(
            [*argv, f"{user}@{self.address}", command], capture_output=True, text=True, timeout=60, check=False
        )


def test_a_closed_network_leaves_the_cloud_and_nothing_else(cloud, tmp_path):
    cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bkt"})
    cloud.ask("POST", "/upload/storage/v1/b/bkt/o?uploadType=media&name=o", "x" * (1 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = shlex.quote(DIAL.replace("{port}", str(listening.getsockname()[1])))
        closed = Machine(cloud, tmp_path, **{"rehearsal-network": "none"}).run(f"python3 -c {program}")
        usual = Machine(cloud, tmp_path, "n2").run(f"python3 -c {program}")
    assert closed.stdout.splitlines() == [
        "['ConnectionRefusedError', 'OSError', 'OSError']",
        f"projects/{usual.stdout.splitlines()[1].split('/')[1]}/zones/us-central1-a",
        str((1 << 20) + 2),
    ], closed
    assert usual.stdout.startswith("['open', "), usual


def test_a_fault_that_finds_nothing_to_do_has_not_fired(cloud, tmp_path):
    machine = Machine(cloud, tmp_path)
    deeds = ({"kill": "no-such-program"}, {"disk_full": {"for_s": 60}})
    cloud.add_faults([{"on": {"after_s": 0}, "do": deed} for deed in deeds])
    until(lambda: "missed" in cloud.faults()[0] and cloud.faults()[1]["fired_at"])
    assert (cloud.faults()[0]["fired_at"], cloud.faults()[0]["missed"]) == (None, "no such process")
    assert "missed" not in cloud.faults()[1]
    until(lambda: "No space left on device" in machine.run("echo x >file").stderr)


@pytest.mark.gcloud
def test_gcloud_on_a_machine_is_the_machines_own_account_and_uploads(cloud, tmp_path):
    cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bkt"})
    commands = ("gcloud auth list --format='value(account)'", "echo hi >f", "gcloud storage cp f gs://bkt/f")
    done = Machine(cloud, tmp_path).run(" && ".join((*commands, "gcloud storage cat gs://bkt/f")))
    account, content = done.stdout.split()
    assert account.endswith("-compute@developer.gserviceaccount.com"), done
    assert content == "hi"


def test_a_new_login_key_comes_into_force_as_late_as_the_profile_says(tmp_path):
    (tmp_path / "slow.yaml").write_text("{base: instant, key_delay_s: 3, scale: 0.5}")
    cloud = LocalCloud(tmp_path / "cloud", "--profile", str(tmp_path / "slow.yaml"))
    cloud.start()
    try:
        machine = Machine(cloud, tmp_path)
        key = machine.key.with_suffix(".pub").read_text().strip()
        cloud.ask("PATCH", f"{NODES}/n1?updateMask=metadata", {"metadata": {"ssh-keys": f"alice:{key}\nbob:{key}"}})
        written = time.monotonic()
        until(lambda: "bob" in cloud.ask("GET", f"{NODES}/n1")["metadata"]["ssh-keys"])
        assert machine.run("true", "bob").returncode == 255
        assert machine.run("true").returncode == 0
        until(lambda: machine.run("true", "bob").returncode == 0)
        assert time.monotonic() - written > 1.4
    finally:
        cloud.stop()
