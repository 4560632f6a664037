"""What each command says, word for word, on a terminal of 110 columns. One story is played once for all snapshots.

`TPUOPS_SNAPSHOTS=write pytest tests/messages` writes them anew; then they are read, by a person, before they land.
"""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle.conftest import BUGGY, TRAINER, User, made_user
from tests.messages.filters import FILTERS, filtered
from tests.messages.terminal import Terminal

pytestmark = [pytest.mark.wire, pytest.mark.timeout(900)]
SNAPSHOTS = Path(__file__).parent / "snapshots"
NAMES = sorted(path.stem for path in SNAPSHOTS.glob("*.txt"))
WRITING = os.environ.get("TPUOPS_SNAPSHOTS") == "write"
FAULTS = """
progress: {file: "**/train.log", pattern: "step=(\\\\d+)"}
faults: [{on: {step: 3}, do: {kill: train.py}}]
"""


class Story:
    """Commands in order, each on a terminal of its own, and what was to be seen."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.screens: dict[str, str] = {}

    def see(self, name: str, *words: str) -> None:
        """Type it, and keep the screen when it ended."""
        with self._typed(*words) as terminal:
            self.keep(name, words, terminal)

    def keep(self, name: str, words: tuple[str, ...], terminal: Terminal) -> None:
        code, screen = terminal.ended(120)
        shown = filtered(screen, self.user.folder)
        self.screens[name] = f"$ tpuops {' '.join(words)}\n{shown}[exit {code}]\n"

    def _typed(self, *words: str) -> Terminal:
        return Terminal([str(self.user.program), *words], self.user.folder, self.user.env)

    def play(self) -> None:
        self.mistakes()
        self.up_train_down()
        self.live()
        self.ends()

    def mistakes(self) -> None:
        nameless = self.user.env.pop("TPUOPS_ENV")
        self.see("no-environment", "status")
        self.user.env["TPUOPS_ENV"] = nameless
        self.see("unknown-environment", "plan", "--env", "tinny")
        self.see("unknown-flag", "plan", "--wach")
        self.see("env-list", "env.list")
        self.see("env-show", "env.show")
        self.see("env-check", "env.check", "--env", "tiny")
        self.see("plan-nothing", "plan")
        self.see("doctor", "doctor")
        self.see("lock-show-nothing", "lock.show")
        self.see("lock-break-nothing", "lock.break")
        self.see("ssh-nothing", "ssh")
        self.see("train-nothing", "train")

    def up_train_down(self) -> None:
        self.see("up", "up")
        self.see("up-again", "up")
        self.see("doctor-standing", "doctor")
        self.relabelled()
        self.see("attach-nothing", "attach")
        self.see("ssh-no-worker", "ssh", "--worker", "3")
        self.see("train", "train")
        self.see("status-trained", "status")
        self.see("logs", "logs")
        self.see("fetch", "fetch")
        self.see("fetch-again", "fetch")
        self.see("stop-nothing", "stop")
        self.see("down", "down")
        self.see("down-again", "down")
        self.see("logs-saved", "logs")
        self.see("status-all", "status", "--all", "--cloud", "local")

    def relabelled(self) -> None:
        """Labels are edited under what stands, and put back."""
        file = self.user.folder / "environments" / "tiny.yaml"
        was = file.read_text()
        file.write_text(was.replace("tpu: {", "tpu: {labels: {team: vision}, "))
        assert file.read_text() != was
        self.see("plan-change", "plan")
        self.see("up-change", "up")
        file.write_text(was)

    def live(self) -> None:
        self.user.write(TRAINER, steps="100000", pace="0.5")
        with (self.user.folder / "environments" / "tiny.yaml").open("a") as file:
            file.write("limits: {abandoned: 1m}\n")  # so that its machine takes a lease over in seconds
        with self._typed("run") as first:
            first.until(r"\| step=2 ")
            self.see("status-running", "status")
            self.see("lock-show", "lock.show")
            with self._typed("lock.break") as asked:
                asked.until(r"\[y/N\]")
                asked.type("n", "Enter")
                self.keep("lock-break-refused", ("lock.break",), asked)
            with self._typed("logs", "--follow") as followed:
                followed.until(r"^step=2 ")
                followed.type("C-c")
                self.keep("logs-left", ("logs", "--follow"), followed)
            with self._typed("stop") as asked:
                asked.until(r"\[y/N\]")
                asked.type("n", "Enter")
                self.keep("stop-refused", ("stop",), asked)
            self.see("run-busy", "run")
            first.type("C-c")
            self.keep("run-interrupted", ("run",), first)
        self.see("status-unsupervised", "status")
        self.see("run-detached", "run", "--detach")
        self.see("status-detached", "status")
        with self._typed("down") as asked:
            asked.until(r"\[y/N\]")
            asked.type("y", "Enter")
            self.keep("down-open-run", ("down",), asked)

    def ends(self) -> None:
        self.user.write(BUGGY)
        self.see("run-bug", "run")
        log = self.user.folder / "worker-0.log"
        log.write_text(textwrap.dedent(BUGLOG))
        self.see("diagnose", "diagnose", "worker-0.log")
        self.see("diagnose-nothing", "diagnose", "nowhere.log")
        self.user.write(TRAINER, steps="12", pace="0.05")
        (self.user.folder / "faults.yaml").write_text(FAULTS)
        self.see("rehearse", "rehearse", "--faults", "faults.yaml")
        self.see("cloud-start", "cloud.start")
        self.see("cloud-status-running", "cloud.status")
        shell = [
            f"{self.user.program} cloud.env 2>&1 | grep -v ENDPOINT_OVERRIDES"
        ]  # which depend on the gcloud there is
        with Terminal(["sh", "-c", *shell], self.user.folder, self.user.env) as terminal:
            self.keep("cloud-env", ("cloud.env", "2>&1", "|", "grep", "-v", "ENDPOINT_OVERRIDES"), terminal)
        self.see("cloud-stop", "cloud.stop")
        self.see("cloud-status", "cloud.status")
        self.see("cloud-reset", "cloud.reset")
        self.see("cloud-reset-again", "cloud.reset")
        words = ("env.new", "second", "--project", "my-project-1", "--accelerator", "v3-8", "--template", "digits")
        with self._typed(*words) as asked:
            for prompt in ("How it is paid for", "Free research quota", "The zone", "The framework"):
                asked.until(prompt)
                asked.type("Enter")
            self.keep("env-new", words, asked)
        self.see("env-new-refused", "env.new", "third", "--project", "my-project-1", "--accelerator", "v9-8")


BUGLOG = """\
step=1 loss=1.0
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    print(layers["conv"])
KeyError: 'conv'
"""


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    user = made_user(tmp_path_factory.mktemp("m"))
    user.write(TRAINER, steps="4", pace="0.05")
    story = Story(user)
    try:
        story.play()
    finally:
        user.end()
    yield story.screens


def test_every_command_says_what_its_snapshot_says(screens: dict[str, str]) -> None:
    if WRITING:
        for path in SNAPSHOTS.glob("*.txt"):
            path.unlink()
        for name, screen in screens.items():
            (SNAPSHOTS / f"{name}.txt").write_text(screen)
    wrong = [name for name, screen in screens.items() if snapshot(name) != screen]
    told = "\n\n".join(f"--- {name}\n{difference(name, screens[name])}" for name in wrong)
    assert not wrong, f"{', '.join(wrong)}\n{told}"
    assert sorted(screens) == sorted(path.stem for path in SNAPSHOTS.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_fits_the_terminal_and_holds_nothing_that_differs(name: str) -> None:
    text = snapshot(name)
    assert filtered(text, Path("/nowhere/at/all")) == text
    assert "this is a bug in tpuops" not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_what_ends_well_says_what_to_type_next() -> None:
    """Everything but `diagnose`, whose advice is what to do next."""
    silent = [
        name for name in NAMES if "[exit 0]" in snapshot(name) and not re.search(r"^next: ", snapshot(name), re.M)
    ]
    assert silent == ["diagnose"]


def test_every_filter_is_needed() -> None:
    everything = "".join(snapshot(name) for name in NAMES)
    words = {name: re.sub(r"\\\d", "", shown).strip(" -()") for name, (_, shown) in FILTERS.items()}
    assert [name for name, word in words.items() if word not in everything] == []


def snapshot(name: str) -> str:
    path = SNAPSHOTS / f"{name}.txt"
    return path.read_text() if path.exists() else ""


def difference(name: str, screen: str) -> str:
    done = subprocess.run(
        ["diff", "-u", SNAPSHOTS / f"{name}.txt", "-"], input=screen, capture_output=True, text=True, check=False
    )
    return done.stdout
