"""Secrets by reference reach the training process, and nothing else that lasts or that others can read."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import secrets as random
import stat
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.environment.conftest import SMALL
from tests.lifecycle.conftest import User, until, user  # noqa: F401
from tpuops import embedded
from tpuops.environment import Environment, load, secrets
from tpuops.errors import AccessError, NotFound, Refused
from tpuops.stages.record import RunRecord
from tpuops.stages.run import spec_of
from tpuops.stages.secrets import Secrets

VERSION = "projects/local-p/secrets/token/versions/latest"
PROGRAM = """
import hashlib, os, pathlib, time
out = pathlib.Path(os.environ["TPUOPS_OUTPUTS"])
out.mkdir(exist_ok=True)
given = "".join(os.environ[f"FROM_{place}"] for place in ("VARIABLE", "FILE", "MANAGER"))
said = hashlib.sha256(given.encode()).hexdigest()
(out / "digest.txt").write_text(said)
print("step=1", flush=True)
while not (pathlib.Path.home() / "go-on").exists():
    time.sleep(0.05)
print("step=2", flush=True)
"""


class Kept:
    """A vault of this process: what it holds, and what was asked for."""

    def __init__(self, held: dict[str, bytes | Exception] | None = None) -> None:
        self.held, self.asked = held or {}, []

    async def secret(self, version: str) -> bytes:
        self.asked.append(version)
        found = self.held.get(version, NotFound(f"no such thing: {version}"))
        if isinstance(found, Exception):
            raise found
        return found


def read(environment: Environment, vault: Kept | None = None) -> dict[str, str]:
    return dict(asyncio.run(Secrets(environment, vault or Kept()).values()))


@pytest.fixture
def written(tmp_path: Path):
    (tmp_path / "source").mkdir()

    def write(listed: str) -> Path:
        path = tmp_path / "tiny.yaml"
        text = SMALL.replace("<project>", "local-p").replace("source: .", "source: source")
        path.write_text(text.replace("train.py]}", f"train.py], secrets: {listed}}}"))
        return path

    return write


def test_values_come_from_variables_and_files_without_the_last_line_end(written, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("two\nlines\n")
    environment = load(written("{A: {env: MINE}, B: {file: token}}"))
    assert secrets.here(environment, {"MINE": "one"}) == ({"A": "one", "B": "two\nlines"}, ())


def test_everything_missing_is_told_at_once_with_its_line_and_no_value(
    written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large").write_bytes(b"canary" * 20_000)
    (tmp_path / "binary").write_bytes(b"canary\0")
    monkeypatch.setenv("OTHER", "canary")
    listed = "{A: {env: MINE}, B: {file: none}, C: {file: large}, D: {file: binary}, E: {file: .}}"
    with pytest.raises(AccessError) as refused:
        read(load(written(listed)))
    told = "\n".join(refused.value.evidence)
    for piece in ("A: the environment variable MINE is not set", "none: No such file", "64 KiB", "zero byte", "tiny"):
        assert piece in told
    assert ":7: train.secrets.E: cannot read ." in told
    assert "canary" not in told + str(refused.value)
    assert refused.value.exit_code == 3


def test_a_secret_that_the_rehearsal_replaces_is_not_read_on_the_embedded_cloud(written) -> None:
    path = written("{A: {env: NOT_THERE}}")
    path.write_text(path.read_text() + "rehearsal: {env: {A: open}}\n")
    assert read(load(path)) == {}


def test_each_version_is_asked_for_once_a_command(written) -> None:
    vault = Kept({VERSION: b"one\n"})
    at_hand = Secrets(load(written(f"{{A: {{secret_manager: {VERSION}}}}}")), vault)
    assert [asyncio.run(at_hand.values()) for _ in range(2)] == [{"A": "one"}] * 2
    assert vault.asked == [VERSION]


@pytest.mark.parametrize(
    ("answer", "says", "hint"),
    [
        (NotFound("it is not there"), "it is not there", "rehearsal.env: {A: ...}"),
        (Refused("DISABLED"), "DISABLED", "enable the version"),
        (AccessError("denied", evidence=["Permission 'secretmanager.versions.access' denied"]), "denied", "Accessor"),
        (AccessError("no login", evidence=["none"], hint="log in"), "no login: none", "log in"),
        (b"\xff", "is not UTF-8 text", "at most 64 KiB"),
    ],
)
def test_what_secret_manager_refuses_is_told_beside_what_is_missing_here(written, answer, says: str, hint: str) -> None:
    environment = load(written(f"{{A: {{secret_manager: {VERSION}}}, B: {{env: NOT_THERE}}}}"))
    with pytest.raises(AccessError, match="2 secret") as refused:
        read(environment, Kept({VERSION: answer}))
    told = "\n".join(refused.value.evidence)
    assert re.search(rf":7: train\.secrets\.A\.secret_manager: .*{says}", told)
    assert hint in told
    assert "train.secrets.B: the environment variable NOT_THERE" in told


def test_what_is_sent_does_not_show_them(written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "canary")
    environment = load(written("{A: {env: MINE}}"))
    spec = spec_of(environment, RunRecord("r", "running", "d", ""), "b", read(environment))
    assert spec.secrets == {"A": "canary"}
    assert "canary" not in repr(spec)


@pytest.mark.wire
def test_they_reach_the_training_process_and_appear_nowhere_else(user: User, until) -> None:  # noqa: F811
    canaries = [f"canary-{random.token_hex(12)}" for _ in range(3)]
    (user.folder / "token").write_text(canaries[1] + "\n")
    (user.folder / "token").chmod(0o600)
    user.write(PROGRAM)
    path = user.folder / "environments" / "tiny.yaml"
    places = (("VARIABLE", "env: MY_TOKEN"), ("FILE", "file: ../token"), ("MANAGER", f"secret_manager: {VERSION}"))
    references = "{" + ", ".join(f"FROM_{place}: {{{where}}}" for place, where in places) + "}"
    path.write_text(path.read_text().replace("  outputs: [outputs]", f"  outputs: [outputs]\n  secrets: {references}"))
    user.run("cloud.start")
    _keep(user, canaries[2])
    user.env["MY_TOKEN"] = canaries[0]  # the embedded cloud, which lives on, was started without it
    run = user.start("run", "--verbose")
    until(lambda: [words for _, words in _started_with(canaries[1].encode())] == [b"python3 train.py"], 60)
    seen = _started_with(canaries[1].encode())
    own = {pid for pid, _ in seen} | {run.pid}
    assert not [pid for pid, _ in _started_with(canaries[0].encode()) if pid not in own]
    forms, ours = _forms(*canaries), _forms(*canaries[:2])
    store = "cloud.sqlite"  # Secret Manager itself holds the third
    assert _in_command_lines(forms) == []
    assert _in_files(user.state.parent, ours) == _in_files(user.state.parent, forms, but=store) == []
    assert _in_files(Path("/proc", str(seen[0][0]), "root", "dev", "shm"), forms) == []  # the machine's own
    assert _in_objects(user, forms) == []
    _let_go(user)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err.decode()
    assert not [form for form in forms if form in out + err]
    digest = hashlib.sha256("".join(canaries).encode()).hexdigest().encode()
    assert _in_objects(user, [digest]), "the program had them"
    assert _in_objects(user, forms) == []
    assert _in_files(user.state.parent, ours) == _in_files(user.state.parent, forms, but=store) == []


def _forms(*canaries: str) -> list[bytes]:
    """Canaries as they are, and as base64 at each of the three offsets."""
    told = [canary.encode() for canary in canaries]
    return [*told, *(base64.b64encode(b"x" * skip + canary)[4:-4] for canary in told for skip in range(3))]


def _processes() -> list[Path]:
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()]


def _started_with(needle: bytes) -> list[tuple[int, bytes]]:
    """Processes with the needle in their environment, and their words."""
    found = []
    for entry in _processes():
        with suppress(OSError):
            if needle in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                found.append((int(entry.name), b" ".join((words[0].rpartition(b"/")[2], *words[1:]))))
    return found


def _in_command_lines(forms: list[bytes]) -> list[str]:
    found = []
    for entry in _processes():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            found += [entry.name for form in forms if form in words]
    return found


def _in_files(folder: Path, forms: list[bytes], but: str = "/") -> list[Path]:
    """Files below a folder (journals, machines' homes, the cloud's own store) that hold any form."""
    found = []
    for path in (each for each in folder.rglob("*") if not each.name.startswith(but)):
        with suppress(OSError):
            if stat.S_ISREG(path.lstat().st_mode):
                data = path.read_bytes()
                found += [path for form in forms if form in data]
    return found


def _in_objects(who: User, forms: list[bytes]) -> list[str]:
    """Objects in any bucket that hold any form."""
    stage = embedded.status(who.state)
    assert stage is not None
    found = []
    for bucket in embedded.ask(stage, "GET", "/storage/v1/b?project=local-tests")["items"]:
        for each in embedded.ask(stage, "GET", f"/storage/v1/b/{bucket['name']}/o").get("items", []):
            where = f"{stage.url}/download/storage/v1/b/{bucket['name']}/o/{each['name'].replace('/', '%2F')}?alt=media"
            with urllib.request.urlopen(where, timeout=10) as reply:
                data = reply.read()
            found += [each["name"] for form in forms if form in data]
    return found


def _keep(who: User, canary: str) -> None:
    """Put it into the embedded cloud's Secret Manager."""
    stage = embedded.status(who.state)
    assert stage is not None
    folder = f"/secretmanager/v1/{VERSION.partition('/token/')[0]}"
    embedded.ask(stage, "POST", f"{folder}?secretId=token", b"{}")
    data = base64.b64encode(canary.encode()).decode()
    embedded.ask(stage, "POST", f"{folder}/token:addVersion", json.dumps({"payload": {"data": data}}).encode())


def _let_go(who: User) -> None:
    """Tell the program to end, through its machine's home."""
    (home,) = [path.parent for path in who.state.rglob(".tpuops") if path.is_dir()]
    (home / "go-on").touch()
