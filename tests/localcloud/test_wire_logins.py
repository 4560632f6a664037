"""Who may log in to a machine: by its own metadata, its project's, or OS Login with IAM; over SSH, on real machines."""

import time

import pytest

from tests.localcloud.test_wire_machines import NODES, Machine, until

pytestmark = pytest.mark.wire
PROJECT = "/compute/v1/projects/local-tests"
ME, NAME = "ada@x.org", "ada_x_org"


def public(machine):
    return machine.key.with_suffix(".pub").read_text().strip()


def project_metadata(cloud, **items):
    mark = cloud.ask("GET", PROJECT)["commonInstanceMetadata"]["fingerprint"]
    body = {"fingerprint": mark, "items": [{"key": key, "value": value} for key, value in items.items()]}
    cloud.ask("POST", f"{PROJECT}/setCommonInstanceMetadata", body)


def enters(machine, user):
    return machine.run("true", user).returncode == 0


def test_project_keys_open_what_does_not_block_them_until_they_expire(cloud, tmp_path):
    machine = Machine(cloud, tmp_path)
    blocking = Machine(cloud, tmp_path, "n2", **{"block-project-ssh-keys": "TRUE"})
    ends = time.strftime("%Y-%m-%dT%H:%M:%S+0000", time.gmtime(time.time() + 4))
    short = f'{{"userName":"bob","expireOn":"{ends}"}}'
    kind, data = public(machine).split()[:2]
    also = " ".join(public(blocking).split()[:2])
    keys = f"bob:{kind} {data} google-ssh {short}\ncarol:{kind} {data}\ncarol:{also}"
    project_metadata(cloud, **{"ssh-keys": keys})
    until(lambda: enters(machine, "bob"))
    assert enters(machine, "carol")
    assert (enters(blocking, "alice"), enters(blocking, "carol")) == (True, False)
    until(lambda: not enters(machine, "bob"))
    assert time.strftime("%Y-%m-%dT%H:%M:%S+0000", time.gmtime()) >= ends
    assert enters(machine, "carol")


def test_os_login_lets_in_whom_profile_and_iam_allow_and_no_key_of_the_metadata(cloud, tmp_path):
    machine = Machine(cloud, tmp_path)
    project_metadata(cloud, **{"enable-oslogin": "TRUE"})
    until(lambda: not enters(machine, "alice"))
    assert not enters(machine, NAME)
    cloud.ask("POST", f"/oslogin/v1/users/{ME}:importSshPublicKey", {"key": public(machine)})
    assert enters(machine, NAME)
    assert machine.run("echo $HOME", NAME).stdout == f"/home/{NAME}\n"
    rules = {"enforce": True, "anonymous": {"email": "root@x"}, "bindings": {ME: [], "root@x": ["roles/owner"]}}
    cloud.ask("POST", "/_cloud/access", rules)
    assert not enters(machine, NAME)
    cloud.ask("POST", "/_cloud/access", {"bindings": {ME: ["roles/compute.osLogin"], "root@x": ["roles/owner"]}})
    assert enters(machine, NAME)
    marks = list(cloud.ask("GET", f"/oslogin/v1/users/{ME}/loginProfile")["sshPublicKeys"])
    cloud.ask("DELETE", f"/oslogin/v1/users/{ME}/sshPublicKeys/{marks[0]}")
    assert not enters(machine, NAME)
    metadata = {"metadata": {"ssh-keys": f"alice:{public(machine)}", "enable-oslogin": "FALSE"}}
    cloud.ask("PATCH", f"{NODES}/n1?updateMask=metadata", metadata)
    until(lambda: enters(machine, "alice"))  # the machine's own word counts for more than its project's
