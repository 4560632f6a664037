"""The reapers where something else goes wrong while they end machines, or keep a run: each trouble a world of its own.

They are played at once, in scaled time, since each takes some graces.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.templates.reaper_world import GRACE_S, LOOK_S, NODE, VM, Agent, World, until
from tpuops import templates

pytestmark = pytest.mark.timeout(240)
PATIENCE_S = 60.0
"""A machine that does much else at once."""

KEEPER = {"run_id": "r1", "machine": "n", "stall_s": None, "success": "delete", "failure": "delete"}
Answer = tuple[int, bytes] | None
BROKEN = 503, b"{}"


def kept(**words: Any) -> dict[str, Any]:
    """A lease that the TPU keeps for its run."""
    return {"token": "", "host": "n", "keeper": {**KEEPER, "until": time.time() + 9999, **words}}


def acts(world: World) -> bool:
    """Whether a reaper holds the lease."""
    return world.holder.get("doing") == "reaper"


class Once:
    """Answers the first calls that it is about: a verb, the end of a path, and whether a reaper acts already."""

    def __init__(self, verb: str, end: str, answer: tuple[int, bytes], times: int = 1, *, acting: bool = False) -> None:
        self.verb, self.end, self.answer, self.left, self.acting = verb, end, answer, times, acting

    def __call__(self, world: World, role: str, verb: str, path: str) -> Answer:
        due = verb == self.verb and path.endswith(self.end) and self.left and (not self.acting or acts(world))
        self.left -= bool(due)
        return self.answer if due else None


def _one_503(folder: Path) -> set[str]:
    world = World(folder, Once("DELETE", NODE, BROKEN))
    return _only_the_vm_acts(world)


def _a_login_page(folder: Path) -> set[str]:
    world = World(folder, Once("GET", NODE, (200, b"<html>log in</html>"), 2, acting=True))
    return _only_the_vm_acts(world)


def _only_the_vm_acts(world: World) -> set[str]:
    world.write()
    world.start("vm")
    until(lambda: VM not in world.stands, PATIENCE_S)
    return _ended(world)


def _ended(world: World) -> set[str]:
    stands = world.stands
    world.close()
    return stands


def _a_full_disk(folder: Path) -> set[str]:
    world = World(folder)
    world.write()
    world.start("node", log="/dev/full")
    world.start("vm")
    until(lambda: not world.stands, PATIENCE_S)
    return _ended(world)


def _who_may_not_delete(folder: Path) -> set[str]:
    """The TPU's account may delete nothing, the VM's may."""

    def trouble(world: World, role: str, verb: str, path: str) -> Answer:
        return (403, b"{}") if role == "node" and verb == "DELETE" else None

    world = World(folder, trouble)
    world.write()
    world.start("node")
    world.start("vm")
    until(lambda: not world.stands, PATIENCE_S)
    return _ended(world)


def _no_bucket(folder: Path) -> set[str]:
    """Past the end that was set, and somebody has deleted the bucket."""
    world = World(folder)
    world.has_bucket = False
    world.start("node", end_s=1.0)
    until(lambda: not world.stands, PATIENCE_S)
    return _ended(world)


def _an_agent_that(folder: Path, ill: str) -> set[str]:
    """The run is healthy; only its agent does not answer any more."""
    agent = Agent(folder, ill)
    world = World(folder)
    world.write(**kept())
    world.start("node", agent.words)
    world.start("vm")
    until(lambda: "status" in agent.asked, PATIENCE_S)
    (folder / "ill").touch()
    until(lambda: world.stands != {NODE, VM}, 3 * GRACE_S)
    return _ended(world)


def _hangs(folder: Path) -> set[str]:
    return _an_agent_that(folder, "time.sleep(60)")


def _dies(folder: Path) -> set[str]:
    return _an_agent_that(folder, "sys.exit(1)")


def _is_silent_for_good(folder: Path) -> set[str]:
    """No answer for longer than doubt lasts."""
    agent = Agent(folder, "sys.exit(1)")
    world = World(folder)
    world.write(**kept())
    (folder / "ill").touch()
    world.start("node", agent.words)
    until(lambda: not world.stands, PATIENCE_S)
    return _ended(world)


def _another_attempt(folder: Path) -> set[str]:
    """One fails under the eyes of its controller, which starts the next and leaves it; then the agent is silent."""
    agent, world = Agent(folder), World(folder)
    follows = {**kept(), "token": "t1", "host": "laptop"}
    world.write(**follows)
    world.start("node", agent.words)
    until(lambda: "status" in agent.asked, PATIENCE_S)
    (folder / "stopped").touch()
    seen, end = len(agent.asked), time.monotonic() + 4 * LOOK_S
    while time.monotonic() < end or len(agent.asked) < seen + 2:
        world.write(**follows)
        time.sleep(0.1)
    (folder / "ill").touch()
    (folder / "stopped").unlink()
    world.write(**kept())
    until(lambda: world.stands != {NODE, VM}, 3 * GRACE_S)
    return _ended(world)


def _a_slow_look(folder: Path) -> set[str]:
    """The controller comes back while the reaper looks at the TPU that it is about to delete."""

    def trouble(world: World, role: str, verb: str, path: str) -> Answer:
        if verb == "GET" and path.endswith(NODE) and acts(world):
            time.sleep(1.0)
            world.write(token="t1")
        return None

    world = World(folder, trouble)
    del world.machines[VM]
    world.write()
    world.start("node", vm=False)
    until(lambda: world.holder.get("token") == "t1", PATIENCE_S)
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        world.write(token="t1")
        time.sleep(0.2)
    return _ended(world)


def _disturbed(folder: Path, success: str, failure: str, *, kill: bool) -> set[str]:
    """A run over its limit, which ends with 0 as it is told to end; then the reaper is disturbed."""
    agent = Agent(folder, slow_collect=kill)
    world = World(folder, Once("DELETE", "lease.json", BROKEN))
    world.write(**kept(success=success, failure=failure, until=time.time() + 1.0))
    reaper = world.start("node", agent.words)
    if kill and until(lambda: "collect" in agent.asked, PATIENCE_S):
        (folder / "again").touch()
        reaper.processes[-1].kill()
    until(lambda: not world.stands or not world.lease, PATIENCE_S)
    return _ended(world)


PLAYS: dict[str, tuple[Callable[[Path], set[str]], set[str]]] = {
    "one 503 where the VM deletes the TPU": (_one_503, set()),
    "a login page where the VM looks at the TPU": (_a_login_page, set()),
    "a full disk on the TPU": (_a_full_disk, set()),
    "the TPU's account may delete nothing": (_who_may_not_delete, set()),
    "somebody deleted the bucket": (_no_bucket, set()),
    "the agent hangs": (_hangs, {NODE, VM}),
    "the agent dies": (_dies, {NODE, VM}),
    "the agent never answers again": (_is_silent_for_good, set()),
    "the agent never speaks of a further attempt": (_another_attempt, {NODE, VM}),
    "the controller comes back during a slow look": (_a_slow_look, {NODE}),
    "a 503 while the machines of a failure are left": (
        lambda at: _disturbed(at, "delete", "keep", kill=False),
        {NODE, VM},
    ),
    "killed while the machines of a failure are left": (
        lambda at: _disturbed(at, "delete", "keep", kill=True),
        {NODE, VM},
    ),
    "killed while the machines of a failure are deleted": (
        lambda at: _disturbed(at, "keep", "delete", kill=True),
        set(),
    ),
}
"""What happens, and what stands at the end."""


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """What stands at the end of each play."""
    folders = {name: tmp_path_factory.mktemp("play") for name in PLAYS}
    with ThreadPoolExecutor(len(PLAYS)) as pool:
        done = {name: pool.submit(PLAYS[name][0], folders[name]) for name in PLAYS}
        yield {name: each.result() for name, each in done.items()}


@pytest.mark.parametrize("name", PLAYS)
def test_what_stands_at_the_end(name: str, stands: dict[str, set[str]]) -> None:
    assert stands[name] == PLAYS[name][1]


def test_a_boot_with_a_full_disk_starts_what_is_there(tmp_path: Path) -> None:
    """`ulimit -f 0` stands for the disk: nothing can be written."""
    programs, folder = tmp_path / "bin", tmp_path / "tpuops"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nmkdir "{tmp_path}/started-$$"\n')
    (programs / "python3").chmod(0o755)
    script = tmp_path / "startup.sh"
    script.write_text(templates.reaper_script().replace("folder=/var/lib/tpuops", f"folder={folder}"))
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    for boot, full in enumerate(("", "ulimit -f 0; "), 1):
        done = subprocess.run(["sh", "-c", f"{full}exec sh {script}"], env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert until(lambda: len(list(tmp_path.glob("started-*"))) == boot * 2, PATIENCE_S), full  # noqa: B023
        assert (folder / "reaper.pyz").stat().st_size > 1000
