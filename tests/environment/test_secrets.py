"""Secrets by reference reach the training process, and nothing else that lasts or that others can read."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets as random
import stat
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.environment.conftest import SMALL
from tests.lifecycle.conftest import User, until, user  # noqa: F401
from tpuops import embedded
from tpuops.environment import load, secrets
from tpuops.errors import AccessError
from tpuops.stages.record import RunRecord
from tpuops.stages.run import spec_of

PROGRAM = """
import hashlib, os, pathlib, time
out = pathlib.Path(os.environ["TPUOPS_OUTPUTS"])
out.mkdir(exist_ok=True)
said = hashlib.sha256((os.environ["FROM_VARIABLE"] + os.environ["FROM_FILE"]).encode()).hexdigest()
(out / "digest.txt").write_text(said)
print("step=1", flush=True)
while not (pathlib.Path.home() / "go-on").exists():
    time.sleep(0.05)
print("step=2", flush=True)
"""


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
    assert secrets.resolve(environment, {"MINE": "one"}) == {"A": "one", "B": "two\nlines"}


def test_everything_missing_is_told_at_once_with_its_line_and_no_value(written, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"canary" * 20_000)
    (tmp_path / "binary").write_bytes(b"canary\0")
    listed = "{A: {env: MINE}, B: {file: none}, C: {file: large}, D: {file: binary}, E: {file: .}}"
    with pytest.raises(AccessError) as refused:
        secrets.resolve(load(written(listed)), {"OTHER": "canary"})
    told = "\n".join(refused.value.evidence)
    for piece in ("A: the environment variable MINE is not set", "none: No such file", "64 KiB", "zero byte", "tiny"):
        assert piece in told
    assert ":7: train.secrets.E: cannot read ." in told
    assert "canary" not in told + str(refused.value)
    assert refused.value.exit_code == 3


def test_a_secret_that_the_rehearsal_replaces_is_not_read_on_the_embedded_cloud(written) -> None:
    path = written("{A: {env: NOT_THERE}}")
    path.write_text(path.read_text() + "rehearsal: {env: {A: open}}\n")
    assert secrets.resolve(load(path), {}) == {}


def test_what_is_sent_does_not_show_them(written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "canary")
    spec = spec_of(load(written("{A: {env: MINE}}")), RunRecord("r", "running", "d", ""), "b")
    assert spec.secrets == {"A": "canary"}
    assert "canary" not in repr(spec)


@pytest.mark.wire
def test_they_reach_the_training_process_and_appear_nowhere_else(user: User, until) -> None:  # noqa: F811
    canaries = [f"canary-{random.token_hex(12)}" for _ in range(2)]
    (user.folder / "token").write_text(canaries[1] + "\n")
    (user.folder / "token").chmod(0o600)
    user.write(PROGRAM)
    path = user.folder / "environments" / "tiny.yaml"
    references = "{FROM_VARIABLE: {env: MY_TOKEN}, FROM_FILE: {file: ../token}}"
    path.write_text(path.read_text().replace("  outputs: [outputs]", f"  outputs: [outputs]\n  secrets: {references}"))
    user.run("cloud.start")
    user.env["MY_TOKEN"] = canaries[0]  # the embedded cloud, which lives on, was started without it
    run = user.start("run", "--verbose")
    until(lambda: [words for _, words in _started_with(canaries[1].encode())] == [b"python3 train.py"], 60)
    seen = _started_with(canaries[1].encode())
    own = {pid for pid, _ in seen} | {run.pid}
    assert not [pid for pid, _ in _started_with(canaries[0].encode()) if pid not in own]
    forms = [form for canary in canaries for form in _forms(canary)]
    assert _in_command_lines(forms) == []
    assert _in_files(user.state.parent, forms) == []
    assert _in_files(Path("/proc", str(seen[0][0]), "root", "dev", "shm"), forms) == []  # the machine's own
    assert _in_objects(user, forms) == []
    _let_go(user)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err.decode()
    assert not [form for form in forms if form in out + err]
    digest = hashlib.sha256("".join(canaries).encode()).hexdigest().encode()
    assert _in_objects(user, [digest]), "the program had them"
    assert _in_objects(user, forms) == []
    assert _in_files(user.state.parent, forms) == []


def _forms(canary: str) -> list[bytes]:
    """A canary as it is, and as base64 at each of the three offsets."""
    coded = [base64.b64encode(b"x" * skip + canary.encode())[4:-4] for skip in range(3)]
    return [canary.encode(), *coded]


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


def _in_files(folder: Path, forms: list[bytes]) -> list[Path]:
    """Files below a folder (journals, machines' homes, the cloud's own store) that hold any form."""
    found = []
    for path in folder.rglob("*"):
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


def _let_go(who: User) -> None:
    """Tell the program to end, through its machine's home."""
    (home,) = [path.parent for path in who.state.rglob(".tpuops") if path.is_dir()]
    (home / "go-on").touch()
