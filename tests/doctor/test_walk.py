"""From an empty home to a trained model, on a terminal: only what is printed as the next command is typed.

The person brings three things: a folder with a training program, the answers to `env.new`, and a yes to each question.
The project is broken in three ways, which the walk has to find and mend on its way.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.messages.terminal import Terminal
from tpuops import embedded

PROGRAM = """
import json, os
slope, data = 0.0, [(x, 3 * x) for x in range(1, 9)]
for step in range(60):
    slope -= 0.004 * sum((slope * x - y) * x for x, y in data) / len(data)
    print(f"step={step} slope={slope:.4f}", flush=True)
os.makedirs(os.environ["TPUOPS_OUTPUTS"], exist_ok=True)
with open(os.path.join(os.environ["TPUOPS_OUTPUTS"], "model.json"), "w") as file:
    json.dump({"slope": slope}, file)
"""
ANSWERS = "--name first --project local-walk --zone us-central1-a --accelerator v3-8 --source ./program --cloud local"
FIREWALL = "/compute/v1/projects/local-walk/global/firewalls/default-allow-ssh"
POLICY = "/resourcemanager/v1/projects/local-walk:setIamPolicy"
MOST_STEPS = 12


class Walker:
    """Somebody with a terminal."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder, self.env = folder, env
        self.typed: list[str] = []

    def type(self, command: str) -> str:
        """Type one command, answer its questions with yes or as proposed, and give what is to be seen at its end."""
        self.typed.append(command)
        with Terminal(shlex.split(command), self.folder, self.env) as terminal:
            while True:
                seen = terminal.until(r"^\[exit \d+\]$|\[[^\]\n]*\]\s*\Z", 240)
                if "[exit " in seen:
                    return seen
                terminal.type(*(("y", "Enter") if seen.rstrip().endswith("[y/N]") else ("Enter",)))
                while terminal.screen() == seen:
                    time.sleep(0.05)


def following(seen: str) -> str:
    """The first command that is printed as the next one, else the last one in a hint."""
    found = re.search(r"^next: (tpuops \S.*?)(?:  |$)", seen, re.MULTILINE)
    if found:
        return found[1]
    return re.findall(r"`(tpuops [^`]+)`", seen)[-1]


@pytest.fixture
def walker(tmp_path: Path, home: Path) -> Iterator[Walker]:
    program = tmp_path / "program"
    program.mkdir()
    (program / "train.py").write_text(PROGRAM)
    own = {"TPUOPS_STATE": str(tmp_path / "state"), "TPUOPS_OWNER": "ada"}
    env = {**os.environ, **own, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    state = tmp_path / "state" / "cloud"
    stage = asyncio.run(embedded.ensure(state))
    ask(stage, "DELETE", FIREWALL, {})
    ask(stage, "POST", POLICY, {"policy": {"bindings": []}})
    ask(stage, "POST", "/_cloud/access", {"disabled": ["tpu.googleapis.com"]})
    yield Walker(tmp_path, env)
    asyncio.run(embedded.stop(state))


def ask(stage: embedded.Stage, verb: str, path: str, body: Any) -> None:
    embedded.ask(stage, verb, path, json.dumps(body).encode())


@pytest.mark.wire
@pytest.mark.timeout(600)
def test_from_an_empty_home_to_a_trained_model_by_the_printed_next_commands_alone(walker: Walker, home: Path) -> None:
    assert not list(home.iterdir())
    seen, models = walker.type("tpuops doctor"), []
    while not models:
        assert len(walker.typed) < MOST_STEPS, walker.typed
        command = following(seen)
        seen = walker.type(f"{command} {ANSWERS}" if command == "tpuops env.new" else command)
        models = list(walker.folder.glob("*/**/model.json"))
        models = [path for path in models if "state" not in path.relative_to(walker.folder).parts[0]]
    assert abs(json.loads(models[0].read_text())["slope"] - 3) < 0.1
    verbs = [command.split()[1] for command in walker.typed]
    assert verbs[:5] == ["doctor", "env.new", "doctor", "doctor", "up"], walker.typed
    assert walker.typed[3].endswith("--fix")
    assert verbs[-2:] == ["train", "fetch"], walker.typed
