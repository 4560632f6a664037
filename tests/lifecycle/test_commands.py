"""The daily commands as a user's processes: looking in on a living run, ending it, bringing it home."""

from __future__ import annotations

import re
import stat
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lifecycle.conftest import User, kill, made_user
from tests.lifecycle.test_run import training as process_of
from tests.messages.terminal import Terminal
from tpuops import embedded

pytestmark = pytest.mark.wire

SAVER = """
import os, signal, sys, time
out = os.environ["TPUOPS_OUTPUTS"]
os.makedirs(out + "/deep", exist_ok=True)
def save(*_):
    open(os.path.join(out, "deep", "last.txt"), "w").write("saved on SIGTERM")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
for step in range(int(os.environ.get("STEPS", "40"))):
    print(f"step={step} loss={1 / (step + 1):.3f}", flush=True)
    time.sleep(float(os.environ.get("PACE", "0.02")))
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """One user, one embedded cloud and one environment that is up, for all tests of this module."""
    made = made_user(tmp_path_factory.mktemp("commands"))
    made.write(SAVER, steps="100000", pace="0.05")
    made.run("up")
    yield made
    made.end()


@pytest.fixture
def training(shared: User) -> User:
    """The same while a run lives under `train`, begun anew where a test ended it."""
    if process_of(shared) is None:
        supervised(shared, "train")
    return shared


def supervised(user: User, *words: str) -> int:
    """Supervise a run with this command; its training process, once it is a new one and lives."""
    before = process_of(user)
    user.start(*words)
    return wait(lambda: (found := process_of(user)) != before and found)


def supervisor(user: User) -> subprocess.Popen[bytes]:
    return next(process for process in reversed(user.started) if process.poll() is None)


def wait(claim, patience_s: float = 60.0):
    deadline = time.monotonic() + patience_s
    while not (found := claim()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.1)
    return found


def done(user: User, *words: str) -> subprocess.CompletedProcess[str]:
    process = user.start(*words)
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(words, process.returncode, out.decode(), err.decode())


def progress(user: User) -> dict[str, Any]:
    """What the supervisor said at the lease's last renewal, read from the bucket itself."""
    stage, (bucket,) = embedded.status(user.state), user.standing()["buckets"]
    assert stage is not None
    name = bucket if isinstance(bucket, str) else bucket["name"]
    return dict(embedded.ask(stage, "GET", f"/storage/v1/b/{name}/o/tpuops%2Ftiny%2Flease.json?alt=media")["progress"])


def test_status_says_what_the_run_does_who_supervises_it_and_what_it_costs(training: User) -> None:
    wait(lambda: progress(training).get("step", -1) > 0)
    found = training.run("status")
    assert found["supervised"] is True
    assert (found["lease"]["user"], found["lease"]["doing"]) == ("ada", "train")
    assert (found["run"]["attempt"], found["run"]["by"]) == (1, "ada")
    assert found["run"]["step"] > 0
    assert 0 < found["run"]["goodput"] <= 1
    assert found["usd_per_hour"] > 8
    assert found["usd_so_far"] > 0


def test_every_environment_is_looked_at_and_a_broken_file_is_a_line(training: User) -> None:
    broken = training.folder / "environments" / "broken.yaml"
    broken.write_text("version: 9\n")
    found = training.run("status", "--all", "--cloud", "local", code=2)
    broken.unlink()
    rows = {row["environment"]: row for row in found["environments"]}
    assert rows["tiny"]["run"]["state"] == "running"
    assert rows["broken"]["exit_code"] == 2
    assert rows["v3-8"]["resources"][0]["state"] == "absent"


def test_a_watch_without_a_terminal_says_each_change_in_a_line(training: User) -> None:
    process = training.start("status", "--watch")
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert re.match(r"\d\d:\d\d:\d\d tiny: bucket present; node READY; vm RUNNING; run: .* is open", line)
    assert "\x1b" not in line
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_logs_show_what_was_said_so_far_and_follow_what_comes(training: User) -> None:
    found = training.run("logs")
    assert (found["attempt"], found["source"], found["alive"]) == (1, "machine", True)
    lines = found["log"].splitlines()
    assert lines[0] == "step=0 loss=1.000"
    assert all(line.startswith("step=") for line in lines)
    process = training.start("logs", "-f")
    assert process.stdout is not None
    for number in range(len(lines) + 20):
        assert process.stdout.readline().startswith(f"step={number} ".encode())
    process.terminate()
    process.communicate(timeout=30)


def test_ssh_passes_the_exit_code_and_trusts_only_the_key_the_api_tells(training: User) -> None:
    found = done(training, "ssh", "--command", "echo on $(hostname); exit 7")
    assert found.returncode == 7
    assert found.stdout.startswith("on t1v-n-")
    folder = training.state.parent / "local-tests" / "tiny" / "ssh"
    config, known = folder / "tpuops-tiny-ada-0.config", folder / "tpuops-tiny-ada-0.known_hosts"
    assert set(folder.iterdir()) == {config, known, folder / "tpuops-tiny-ada-0.host_keys"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    name, kind, _ = known.read_text().split()
    known.write_text(f"{name} {kind} {'A' * 68}\n")
    plain = subprocess.run(["ssh", "-F", config, name, "true"], capture_output=True, check=False, timeout=30)
    assert plain.returncode == 255


def test_ssh_goes_to_the_vm_and_refuses_a_worker_that_is_not_there(training: User) -> None:
    assert done(training, "ssh", "--vm", "--command", "hostname").stdout.startswith("tpuops-tiny-ada-vm")
    refused = done(training, "ssh", "--worker", "3")
    assert refused.returncode == 1
    assert "it has one worker, 0" in refused.stderr


def test_attach_joins_the_session_and_leaving_it_leaves_the_training(training: User) -> None:
    before = process_of(training)
    with Terminal([str(training.program), "attach"], training.folder, training.env) as terminal:
        terminal.until(r"step=\d+ loss=")
        terminal.type("C-b", "d")
        code, shown = terminal.ended()
    assert code == 0, shown
    assert process_of(training) == before


def test_stop_asks_and_without_a_terminal_refuses(training: User) -> None:
    before = process_of(training)
    found = training.run("stop", code=7)
    assert "nobody is there to agree" in found["error"]["message"]
    assert "--yes" in found["error"]["hint"]
    for key, code in (("n", 7), ("C-c", 130)):
        with Terminal([str(training.program), "stop"], training.folder, training.env) as terminal:
            assert "supervised by ada" in " ".join(terminal.until(r"\[y/N\]").split())
            terminal.type(key, *(["Enter"] if key == "n" else []))
            assert terminal.ended()[0] == code
    assert process_of(training) == before


def test_a_changed_source_is_refused_until_a_yes_which_stops_and_saves_the_run_before(training: User) -> None:
    kill(supervisor(training))
    before = process_of(training)
    (training.folder / "source" / "train.py").write_text(SAVER + "# another\n")
    assert "was started from another source" in training.run("train", code=7)["error"]["message"]
    assert process_of(training) == before
    supervised(training, "train", "--yes")
    assert training.run("logs")["log"].startswith("step=0")


def test_stop_ends_a_supervised_run_for_good_with_what_it_saved_on_sigterm(training: User) -> None:
    watcher = supervisor(training)
    found = training.run("stop", "--yes")
    assert (found["outcome"], found["supervised"], found["remains"]) == ("stopped", True, [])
    assert any(file["name"].endswith("outputs/deep/last.txt") for file in found["saved"])
    assert {left["kind"] for left in found["kept"]} == {"bucket", "node", "vm"}
    out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 143, err.decode()
    assert b"stopped (exit code 143)" in out
    after = training.run("status")
    assert (after["run"]["state"], after["run"]["attempt"], after["supervised"]) == ("closed", 1, False)
    assert process_of(training) is None


def test_fetch_brings_everything_home_writes_over_nothing_and_follows_no_link(shared: User) -> None:
    folder, outside = shared.folder / "home", shared.folder / "outside"
    found = shared.run("fetch", "--to", "home")
    assert (folder / "outputs/deep/last.txt").read_text() == "saved on SIGTERM"
    assert (folder / "logs/1/train.log").read_text().startswith("step=0")
    (folder / "outputs/deep/last.txt").write_text("mine")
    (folder / "logs").rename(outside)
    (folder / "logs").symlink_to(outside)
    (outside / "1/train.log").unlink()
    again = shared.run("fetch", "--to", "home", code=1)
    assert {"outputs/deep/last.txt", "logs/1/train.log"} <= set(again["refused"])
    assert len(again["refused"]) + len(again["equal"]) == len(found["brought"])
    assert (folder / "outputs/deep/last.txt").read_text() == "mine"
    assert not (outside / "1/train.log").exists()
    assert "no-such-run" in shared.run("fetch", "--run", "no-such-run", code=1)["error"]["message"]


def test_down_of_an_open_run_asks_and_saves_before_it_removes(training: User) -> None:
    assert "nobody is there to agree" in training.run("down", code=7)["error"]["message"]
    kill(supervisor(training))
    assert len(training.run("down", "--yes")["removed"]) == 2
    assert training.standing()["nodes"] == []
    assert "outputs/deep/last.txt" in training.run("fetch", "--to", "second")["brought"]


def test_without_machines_logs_come_from_the_bucket_and_the_rest_says_what_to_do(shared: User) -> None:
    found = shared.run("logs")
    assert found["source"] == "bucket"
    assert found["log"].startswith("step=0")
    refused = done(shared, "attach")
    assert refused.returncode == 1
    assert "tpuops up --env tiny makes it" in refused.stderr
    assert shared.run("stop")["run_id"] == ""
