"""Logins to machines, broken one by one on a TPU that stands; doctor as a user's process says which, and mends some."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cloud_fixture import LocalCloud

from .conftest import FILE, Clinic
from .forge import Forge

pytestmark = pytest.mark.wire

ALONE = FILE.replace("vm: {machine_type: e2-small}", "vm: none")
NODE = "/v2/projects/local-tests/locations/us-central1-a/nodes/tpuops-tiny-ada"
MATE = "bob:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZlN8Yz4P1bnyqf3DVdGHBP0dwKhcPGcXFdhpEyGYvk bob"


class Ward(Clinic):
    """A clinic whose TPU stands, and really runs."""

    @property
    def key(self) -> Path:
        return self.cloud.state.parent / "local-tests" / "tiny" / "id_ed25519"

    def metadata(self) -> dict[str, str]:
        return dict(self.cloud.ask("GET", NODE)["metadata"])

    def change(self, **metadata: str) -> None:
        changed = {**self.metadata(), **{key.replace("_", "-"): value for key, value in metadata.items()}}
        self.put(changed)

    def put(self, metadata: dict[str, str]) -> None:
        self.patiently("PATCH", f"{NODE}?updateMask=metadata", {"metadata": metadata})
        while self.metadata() != metadata:
            time.sleep(0.1)

    def patiently(self, verb: str, path: str, body: Any) -> Any:
        """A call on the node, as soon as no other change of it is under way."""
        for _ in range(200):
            try:
                return self.cloud.ask(verb, path, body)
            except urllib.error.HTTPError as refused:
                if refused.code != 409:
                    raise
            time.sleep(0.1)
        raise AssertionError("the node stays busy")

    def settled(self) -> None:
        """Wait until a fault is over."""
        for _ in range(20):
            if self.typed("ssh", "--env", "tiny", "--command", "true").returncode == 0:
                return
            time.sleep(0.2)
        raise AssertionError("nobody can log in any more")

    def on_machine(self, line: str) -> str:
        done = self.typed("ssh", "--env", "tiny", "--command", line)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def publish(self, value: str) -> None:
        """A program on the machine says which host key it has."""
        path = "computeMetadata/v1/instance/guest-attributes/hostkeys/ssh-ed25519"
        program = (
            "import os,sys,urllib.request as u;"
            f"u.urlopen(u.Request('http://'+os.environ['GCE_METADATA_HOST']+'/{path}',method='PUT',"
            "data=sys.argv[1].encode().decode('unicode_escape').encode(),headers={'Metadata-Flavor':'Google'}))"
        )
        self.on_machine(f'python3 -c "{program}" {value!r}')

    def mended(self) -> dict[str, Any]:
        """`doctor --fix --yes`, after which a real `up` and a login succeed."""
        seen = self.doctor("--fix", "--yes")
        assert self.run("up", "--env", "tiny")["changed"] == []
        assert self.on_machine("echo in").strip() == "in"
        return seen.document


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, forge: Forge, tools: Path) -> Iterator[Ward]:
    folder = tmp_path_factory.mktemp("w")
    served = LocalCloud(folder / "cloud", "--seed", "1")
    served.start()
    env = {
        **os.environ,
        "TPUOPS_STATE": str(folder),
        "TPUOPS_OWNER": "ada",
        "HOME": str(folder / "home"),
        "PATH": str(tools),
    }
    (folder / "home").mkdir()
    ward = Ward(folder, folder / "home", served, {**env, "CLOUDSDK_CONFIG": str(folder / "gcloud")}, forge)
    ward.write(ALONE)
    ward.run("up", "--env", "tiny")
    ward.settled()  # a machine that has just started has not told its host keys yet
    assert ward.on_machine("echo in").strip() == "in"
    yield ward
    served.stop()


@pytest.fixture
def ward(standing: Ward) -> Ward:
    """All is well again, and our key is the only one that the machine lists."""
    if len(standing.metadata().get("ssh-keys", "").splitlines()) != 1 or MATE in standing.metadata()["ssh-keys"]:
        standing.change(ssh_keys="")
    standing.settled()
    return standing


def host_key(length: int = 32) -> str:
    """The base64 of some ed25519 key."""
    words = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", secrets.token_bytes(length)))
    return base64.b64encode(words).decode()


def test_all_is_well_and_a_look_leaves_no_trace(ward: Ward) -> None:
    before = sorted(ward.key.parent.rglob("*"))
    seen = ward.doctor()
    assert seen["ssh-login"]["what"] == "tpuops can log in to tpuops-tiny-ada"
    assert seen["ssh-key"]["state"] == "ok"
    assert [path for path in sorted(ward.key.parent.rglob("*")) if "journal" not in str(path)] == [
        path for path in before if "journal" not in str(path)
    ]


@pytest.mark.parametrize(("spoil", "kind"), [("open", "ssh-key-open"), ("rubbish", "ssh-key-broken")])
def test_our_own_key_that_cannot_be_used_is_made_anew(ward: Ward, spoil: str, kind: str) -> None:
    ward.change(ssh_keys=f"{MATE}\n{ward.metadata()['ssh-keys']}")
    before = ward.key.read_bytes()
    if spoil == "open":
        ward.key.chmod(0o644)
    else:
        ward.key.write_text("rubbish")
    seen = ward.doctor(code=3)
    seen.is_broken("ssh-key", kind, "doctor --env tiny --fix")
    assert seen["ssh-login"]["state"] == "skipped"
    done = ward.mended()
    assert [row["result"] for row in done["fixes"]] == ["done", "done"]
    assert ward.key.read_bytes() != before
    assert stat.S_IMODE(ward.key.stat().st_mode) == 0o600
    assert len(list(ward.key.parent.glob("old-id_ed25519-*"))) >= 1
    assert MATE in ward.metadata()["ssh-keys"].splitlines()


def test_a_machine_that_does_not_list_our_key(ward: Ward) -> None:
    ward.change(ssh_keys=MATE)
    seen = ward.doctor()["ssh-login"]
    assert (seen["state"], seen["class"]) == ("warning", "ssh-key-unknown")
    ward.mended()
    assert ward.metadata()["ssh-keys"].splitlines()[0] == MATE


def test_a_key_that_has_run_out_and_one_for_another_user(ward: Ward) -> None:
    ours = ward.metadata()["ssh-keys"].splitlines()[-1]
    ward.change(ssh_keys=re.sub(r'"expireOn":"[^"]*"', '"expireOn":"2020-01-01T00:00:00+0000"', ours))
    assert ward.doctor()["ssh-login"]["class"] == "ssh-key-expired"
    ward.mended()
    assert len(ward.metadata()["ssh-keys"].splitlines()) == 1
    ward.change(ssh_keys=ours.replace("tpuops:", "carol:", 1))
    seen = ward.doctor()["ssh-login"]
    assert (seen["class"], "for the user carol, not for tpuops" in seen["what"]) == ("ssh-user", True)


def test_a_key_that_is_listed_and_not_in_force(ward: Ward) -> None:
    ward.cloud.add_faults([{"on": {"after_s": 0}, "do": {"key_delay": {"for_s": 15}}}])
    seen = ward.doctor(code=5)
    seen.is_broken("ssh-login", "ssh-key-pending", "a minute or two")
    assert any("PermissionDenied" in line for line in seen["ssh-login"]["evidence"])
    ward.settled()


def test_os_login_for_the_whole_project_puts_our_key_out_of_force(ward: Ward) -> None:
    project = ward.cloud.ask("GET", "/compute/v1/projects/local-tests")["commonInstanceMetadata"]
    path = "/compute/v1/projects/local-tests/setCommonInstanceMetadata"
    on = {"fingerprint": project["fingerprint"], "items": [{"key": "enable-oslogin", "value": "TRUE"}]}
    ward.cloud.ask("POST", path, on)
    ward.doctor(code=3).is_broken("ssh-login", "ssh-os-login", "login: os-login")
    now = ward.cloud.ask("GET", "/compute/v1/projects/local-tests")["commonInstanceMetadata"]
    ward.cloud.ask("POST", path, {"fingerprint": now["fingerprint"], "items": []})
    assert ward.doctor()["ssh-login"]["state"] == "ok"


def test_no_sshd(ward: Ward) -> None:
    ward.cloud.add_faults([{"on": {"after_s": 0}, "do": {"ssh_drop": {"for_s": 12}}}])
    ward.doctor(code=5).is_broken("ssh-login", "ssh-not-listening", "stop and start")
    ward.settled()


def sshd_of(cloud: LocalCloud) -> int:
    """The process of the machine's sshd, as this host numbers it: inside, 1 is the sandbox and 2 the gate's keeper."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, StopIteration):
            words = (entry / "status").read_text().splitlines() if entry.name.isdigit() else []
            inside = next(line for line in words if line.startswith("NSpid:")).split()[1:]
            if len(inside) > 1 and inside[-1] == "3" and _descends(int(entry.name), cloud.pid):
                return int(entry.name)
    raise AssertionError("there is no sshd")


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        stats = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(stats[1])
    return pid == ancestor


def test_a_machine_that_takes_connections_and_one_that_does_not_even_answer(ward: Ward) -> None:
    address = ward.cloud.ask("GET", NODE)["networkEndpoints"][0]["ipAddress"]
    pid, waiting = sshd_of(ward.cloud), []
    os.kill(pid, signal.SIGSTOP)
    try:
        ward.doctor(code=5).is_broken("ssh-login", "ssh-broken-off", "stop and start")
        for _ in range(400):  # as a firewall does: once its queue is full, nothing answers
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((address, ward.cloud.ssh_port))
            waiting.append(filler)
        seen = ward.doctor(code=5)
        seen.is_broken("ssh-login", "ssh-filtered", "gcloud compute firewall-rules create")
        assert any("TimeoutError" in line for line in seen["ssh-login"]["evidence"])
    finally:
        for filler in waiting:
            filler.close()
        os.kill(pid, signal.SIGCONT)
    assert ward.doctor()["ssh-login"]["state"] == "ok"


def test_a_host_key_that_changed_and_one_that_is_no_key(ward: Ward) -> None:
    real = ward.on_machine("cat /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null || true").split()
    known = ward.key.parent / "ssh" / "tpuops-tiny-ada-0.known_hosts"
    true_key = known.read_text().split()[2]
    assert real[1:2] in ([], [true_key])
    for value, kind in (
        (host_key(), "ssh-host-key-changed"),
        (f"{true_key}\\n* ssh-ed25519 {host_key()}", "ssh-host-key-malformed"),
    ):
        line = known.read_text()
        ward.publish(value)
        ward.doctor(code=3).is_broken("ssh-login", kind, "" if kind.endswith("malformed") else "rm ")
        refused = ward.typed("ssh", "--env", "tiny", "--command", "true")
        assert refused.returncode == 3, refused.stderr
        assert known.read_text() == line, "no line was added"
        path = (
            f"{ward.cloud.url}/m/{machine_id(ward)}/computeMetadata/v1/instance/guest-attributes/hostkeys/ssh-ed25519"
        )
        subprocess.run(["curl", "-sf", "-X", "PUT", "-H", "Metadata-Flavor: Google", "-d", true_key, path], check=True)
    assert ward.doctor()["ssh-login"]["state"] == "ok"


def machine_id(ward: Ward) -> str:
    return f"{ward.cloud.ask('GET', NODE)['id']}-0"


def test_a_machine_that_does_not_run(ward: Ward) -> None:
    ward.patiently("POST", f"{NODE}:stop", {})
    seen = ward.doctor()["ssh-login"]
    while seen["what"].endswith("STOPPING"):
        seen = ward.doctor()["ssh-login"]
    assert (seen["state"], seen["class"], "up" in seen["hint"]) == ("warning", "machine-down", True)
    ward.run("up", "--env", "tiny")
    ward.settled()  # a machine that has just started has not told its host keys yet
    assert ward.on_machine("echo in").strip() == "in"


def pair(ward: Ward, *options: str) -> Path:
    folder = ward.home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    for old in folder.glob("*google_compute_engine*"):
        old.unlink()
    path = folder / "google_compute_engine"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", *(options or ("",)), "-f", path], check=True)
    return path


def no_public_half(path: Path) -> None:
    path.with_name(f"{path.name}.pub").unlink()


def open_to_others(path: Path) -> None:
    path.chmod(0o644)


def anothers_public_half(path: Path) -> None:
    other = path.with_name("other")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    other.unlink()
    other.with_name("other.pub").replace(path.with_name(f"{path.name}.pub"))


@pytest.fixture
def with_gcloud(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> Ward:
    monkeypatch.setitem(ward.env, "PATH", f"{ward.env['PATH']}:{Path(shutil.which('gcloud')).parent}")
    return ward


def mended_pair(ward: Ward, spoil: Callable[[Path], None], kind: str) -> None:
    """A pair in a home of its own that is broken so, and what `doctor --fix` makes of it."""
    home = ward.folder / kind
    home.mkdir()
    own = {**ward.env, "HOME": str(home), "CLOUDSDK_CONFIG": str(home / "gcloud")}
    with contextlib.closing(Forge()) as forge:
        user = replace(ward, home=home, env=own, forge=forge)
        path = pair(user)
        spoil(path)
        before = {each.read_bytes() for each in path.parent.iterdir()}
        assert user.doctor()["gcloud-keys"]["class"] == f"gcloud-key-{kind}"
        seen = user.doctor("--fix", "--yes")
    assert [row["result"] for row in seen.document["fixes"]] == ["done"]
    assert seen["gcloud-keys"]["state"] == "ok"
    assert {each.read_bytes() for each in path.parent.glob("old-google_compute_engine*")} == before
    assert path.read_bytes() not in before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_gclouds_broken_pairs_are_moved_and_made_anew_once_its_own_ssh_has_failed(with_gcloud: Ward) -> None:
    cases = ((no_public_half, "half-missing"), (open_to_others, "wrong-mode"), (anothers_public_half, "halves-differ"))
    with ThreadPoolExecutor() as together:  # gcloud tries for 50 s
        for case in [together.submit(mended_pair, with_gcloud, *case) for case in cases]:
            case.result()


def test_gclouds_key_with_a_passphrase_stays_where_its_own_ssh_can_be_tried(with_gcloud: Ward) -> None:
    path = pair(with_gcloud)
    assert with_gcloud.doctor()["gcloud-keys"]["state"] == "ok"
    path = pair(with_gcloud, "a secret phrase")
    before = {each.name: each.read_bytes() for each in path.parent.glob("*google_compute_engine*")}
    seen = with_gcloud.doctor("--fix", "--yes")
    assert (seen["gcloud-keys"]["class"], seen["gcloud-keys"]["fix"]) == ("gcloud-key-passphrase", None)
    assert "ssh-add" in seen["gcloud-keys"]["hint"]
    assert seen.document["fixes"] == []
    assert {each.name: each.read_bytes() for each in path.parent.glob("*google_compute_engine*")} == before
