"""Getting in as a user's processes: from a second machine, with a slow key, by OS Login, through IAP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle.conftest import TRAINER, User, made_user
from tpuops import embedded

pytestmark = pytest.mark.wire

NODE = "/v2/projects/local-tests/locations/us-central1-a/nodes/tpuops-tiny-ada"
VM = "/compute/v1/projects/local-tests/zones/us-central1-a/instances/tpuops-tiny-ada-vm"
ME = "/oslogin/v1/users/me/loginProfile"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    made = made_user(tmp_path_factory.mktemp("reach"))
    made.write(TRAINER, steps="100000", pace="0.05")
    made.run("up")
    yield made
    made.end()


def ask(user: User, verb: str, path: str) -> dict:
    stage = embedded.status(user.state)
    assert stage is not None
    return dict(embedded.ask(stage, verb, path))


def fault(user: User, **deed: object) -> None:
    stage = embedded.status(user.state)
    assert stage is not None
    embedded.ask(stage, "POST", "/_cloud/faults", json.dumps([{"on": {"after_s": 0}, "do": deed}]).encode())


def typed(user: User, *words: str, code: int = 0) -> tuple[str, str]:
    process = user.start(*words)
    out, err = (each.decode() for each in process.communicate(timeout=180))
    assert process.returncode == code, err
    return out, err


def listed(user: User) -> list[str]:
    return ask(user, "GET", NODE)["metadata"]["ssh-keys"].splitlines()


def own(user: User) -> Path:
    return Path(user.env["TPUOPS_STATE"]) / "local-tests" / "tiny"


def on_another_machine(user: User, name: str) -> None:
    """Another machine of the same person: nothing of the first one's key, nor of what it knew."""
    own(user).rename(own(user).with_name(name))


def test_a_second_machine_looks_in_while_the_first_one_trains(shared: User) -> None:
    first = listed(shared)
    training = shared.start("train")
    assert training.stderr is not None
    for line in training.stderr:
        if b"step=3 " in line:
            break
    on_another_machine(shared, "laptop")
    out, err = typed(shared, "logs")
    assert "step=3 " in out
    assert "adding this machine's SSH key, good until" in err
    assert listed(shared)[: len(first)] == first, "what others have stays as it is"
    assert len(listed(shared)) == len(first) + 1
    out, err = typed(shared, "ssh", "--command", "echo in")
    assert (out, "adding" in err) == ("in\n", False)
    assert shared.run("status")["supervised"] is True, "the first one's lease was not touched"
    assert training.poll() is None
    training.kill()
    training.communicate()


def test_a_second_machine_logs_in_to_the_vm(shared: User) -> None:
    on_another_machine(shared, "desk")
    out, err = typed(shared, "ssh", "--vm", "--command", "hostname")
    assert out.startswith("tpuops-tiny-ada-vm")
    assert "adding this machine's SSH key" in err
    items = {item["key"]: item["value"] for item in ask(shared, "GET", VM)["metadata"]["items"]}
    assert len(items["ssh-keys"].splitlines()) == 2
    assert set(items) >= {"enable-guest-attributes", "block-project-ssh-keys"}


def test_a_key_that_comes_into_force_late_is_waited_for(shared: User) -> None:
    on_another_machine(shared, "slow")
    fault(shared, key_delay={"for_s": 25.0})  # longer than an old key is tried for
    assert typed(shared, "ssh", "--command", "echo in")[0] == "in\n"


def test_every_entry_ends_after_the_longest_run(shared: User) -> None:
    for line in listed(shared):
        comment = line.partition("google-ssh ")[2]
        assert set(json.loads(comment)) == {"userName", "expireOn"}
        assert " " not in comment


def test_a_machine_made_anew_is_a_new_machine(shared: User) -> None:
    typed(shared, "ssh", "--command", "true")
    known = own(shared) / "ssh" / "tpuops-tiny-ada-0.host_keys"
    before = json.loads(known.read_text())
    shared.run("down", "--yes", "--discard")
    shared.run("up")
    assert typed(shared, "ssh", "--command", "echo in")[0] == "in\n"
    after = json.loads(known.read_text())
    assert before["machine"] != after["machine"]
    assert before["keys"] != after["keys"]


@pytest.mark.gcloud
def test_the_private_form_runs_through_iap_and_os_login_and_leaves_no_key(user: User) -> None:
    path = user.folder / "environments" / "tiny.yaml"
    path.write_text(path.read_text() + "ssh: {login: os-login, reach: iap}\n")
    user.run("up")
    metadata = ask(user, "GET", NODE)["metadata"]
    assert (metadata["enable-oslogin"], "ssh-keys" in metadata) == ("TRUE", False)
    out, _ = typed(user, "ssh", "--command", "echo $USER")
    assert out == "local_tpuops_invalid\n"
    (key,) = ask(user, "GET", ME)["sshPublicKeys"].values()
    assert int(key["expirationTimeUsec"]) > 0
    tunnels = [entry for entry in user.requests() if entry["method"] == "iap.tunnelInstances.accessViaIAP"]
    assert len(tunnels) >= 2
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    stage = embedded.status(user.state)
    assert stage is not None
    assert stage.url.rpartition("/")[2] not in shown
    user.run("down")
    assert "sshPublicKeys" not in ask(user, "GET", ME)
