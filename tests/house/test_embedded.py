"""The embedded cloud as a process: found, started once, believed only while it lives, and ended whole."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tpuops import embedded
from tpuops.errors import AccessError, EnvironmentFileError, TpuopsError

pytestmark = pytest.mark.wire
TPUOPS = Path(sys.executable).parent / "tpuops"


@pytest.fixture
async def state(home: Path) -> AsyncIterator[Path]:
    folder = home / "tpuops/cloud"
    yield folder
    await embedded.stop(folder)


def lives(pid: int) -> bool:
    if not Path(f"/proc/{pid}").exists():
        return False
    name, _, rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
    return b"(python" in name and rest.split()[0] != b"Z"  # one that nobody waited for yet has ended


async def test_it_is_started_once_and_found_by_everybody_after(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spawn, spawned = embedded._spawn, []
    monkeypatch.setattr(embedded, "_spawn", lambda *where: spawned.append(where) or spawn(*where))
    stages = await asyncio.gather(*(embedded.ensure(state) for _ in range(5)))
    assert len({stage.pid for stage in stages}) == len(spawned) == 1
    assert embedded.status(state) == stages[0] == await embedded.ensure(state)
    assert embedded.ask(stages[0], "GET", "/_cloud/status")["nodes"] == []


async def test_its_files_are_nobody_elses(state: Path) -> None:
    await embedded.ensure(state)
    open_to_others = [path.name for path in state.iterdir() if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []


async def test_stopping_ends_it_and_stopping_again_finds_nothing(state: Path) -> None:
    stage = await embedded.ensure(state)
    assert await embedded.stop(state)
    assert not lives(stage.pid)
    assert embedded.status(state) is None
    assert not await embedded.stop(state)


async def test_one_that_was_killed_is_not_believed_and_starts_again_with_what_it_held(state: Path) -> None:
    before = await embedded.ensure(state)
    os.kill(before.pid, signal.SIGKILL)
    assert (state / "endpoint.json").exists()
    while lives(before.pid) and embedded.status(state):
        await asyncio.sleep(0.01)
    after = await embedded.ensure(state)
    assert after.pid != before.pid
    assert after.url.rpartition("/")[2] == before.url.rpartition("/")[2]


@pytest.mark.parametrize("spoilt", ["", "xx", "[]", '{"url": 5, "ssh_port": 1, "pid": 1}'])
async def test_one_whose_file_was_spoilt_is_neither_doubled_nor_lost(state: Path, spoilt: str) -> None:
    stage = await embedded.ensure(state)
    (state / "endpoint.json").write_text(spoilt)
    with pytest.raises(AccessError, match=f"process {stage.pid} is the embedded cloud of") as refused:
        await embedded.ensure(state)
    assert refused.value.hint.startswith("tpuops cloud.stop")
    assert await embedded.stop(state)
    assert not lives(stage.pid)
    assert (await embedded.ensure(state)).url == stage.url


async def test_one_that_lives_is_found_where_nothing_can_be_written(state: Path) -> None:
    stage = await embedded.ensure(state)
    look = [sys.executable, "-c", "import sys, asyncio; from pathlib import Path; from tpuops import embedded; "
            "print(asyncio.run(embedded.ensure(Path(sys.argv[1]))).pid)", str(state)]  # fmt: skip
    wrapped = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(state), str(state), *look]
    assert int(subprocess.run(wrapped, capture_output=True, check=True, timeout=30).stdout) == stage.pid


async def test_one_that_does_not_listen_is_ended_by_force(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STOP_TIMEOUT_S", 0.3)
    stage = await embedded.ensure(state)
    os.kill(stage.pid, signal.SIGSTOP)
    assert await embedded.stop(state)
    assert not lives(stage.pid)
    assert not (state / "endpoint.json").exists()


async def test_a_strangers_process_is_neither_believed_nor_ended(state: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    state.mkdir(parents=True)
    endpoint = {"url": "http://127.0.0.1:1/k-x", "ssh_port": 22, "pid": stranger.pid}
    (state / "endpoint.json").write_text(json.dumps(endpoint))
    assert embedded.status(state) is None
    assert not await embedded.stop(state)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


async def test_it_outlives_the_command_that_started_it_and_its_ctrl_c(home: Path, state: Path) -> None:
    started = subprocess.run([TPUOPS, "cloud.start", "--json"], capture_output=True, check=True, timeout=30)
    stage = embedded.status(state)
    assert stage is not None
    assert json.loads(started.stdout)["pid"] == stage.pid
    assert os.getsid(stage.pid) == stage.pid != os.getsid(0)


async def test_without_a_sandbox_its_own_words_are_the_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(AccessError, match="bubblewrap") as refusal:
        await embedded.ensure(home / "cloud")
    assert "install bubblewrap" in refusal.value.hint
    assert embedded.status(home / "cloud") is None


async def test_one_that_breaks_while_starting_shows_the_end_of_its_log(state: Path) -> None:
    state.mkdir(parents=True)
    (state / "cloud.sqlite").mkdir()
    with pytest.raises(TpuopsError) as broken:
        await embedded.ensure(state)
    assert broken.value.hint == f"read {state / 'cloud.log'}"


async def test_a_fault_script_is_armed_on_a_new_one_and_on_a_running_one(state: Path, tmp_path: Path) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text("- {on: {step: 40}, do: {preempt: true}}\n")
    stage = await embedded.ensure(state, faults=script)
    await embedded.ensure(state, faults=script)
    assert [fault["on"] for fault in embedded.ask(stage, "GET", "/_cloud/faults")["faults"]] == [{"step": 40}] * 2


@pytest.mark.parametrize("text", ["- {on: {moon: full}, do: {preempt: true}}\n", "- {on: [\n"])
async def test_a_wrong_fault_script_is_exit_2_and_says_why(state: Path, tmp_path: Path, text: str) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text(text)
    with pytest.raises(EnvironmentFileError) as wrong:
        await embedded.ensure(state, faults=script)
    assert str(script) in wrong.value.message
    assert wrong.value.evidence


async def test_resetting_forgets_everything(state: Path) -> None:
    await embedded.ensure(state)
    assert await embedded.reset(state)
    assert not state.exists()
    assert not await embedded.reset(state)


async def test_a_folder_that_is_not_its_own_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(AccessError, match="not an embedded cloud's folder"):
        await embedded.reset(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


async def test_the_tasks_show_start_and_stop_it(home: Path, state: Path) -> None:
    def tpuops(*words: str) -> str:
        return subprocess.run([TPUOPS, *words], capture_output=True, text=True, check=True, timeout=30).stdout

    assert tpuops("cloud.status") == "not running\n"
    started = tpuops("cloud.start")
    assert started.startswith("http://127.0.0.1:")
    assert tpuops("cloud.start") == started
    assert json.loads(tpuops("cloud.status", "--json"))["standing"]["nodes"] == []
    assert tpuops("cloud.stop") == "stopped; what it holds stays\n"
    assert tpuops("cloud.stop") == "nothing to stop\n"
    assert tpuops("cloud.reset") == "stopped, and everything on it is forgotten\n"


async def test_a_start_that_is_interrupted_leaves_no_process(state: Path) -> None:
    starting = asyncio.create_task(embedded.ensure(state))
    await asyncio.sleep(0.1)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert embedded.status(state) is None
