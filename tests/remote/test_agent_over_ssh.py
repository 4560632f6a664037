"""The agent's vocabulary over a real connection: what it answers, and what its silence or its lies become."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.remote.server import Machine
from tests.templates.machine import RUN
from tpuops.errors import Busy, CommandFailed, EnvironmentFileError, Unreachable
from tpuops.remote import lines, sync
from tpuops.remote.agent import SshAgent
from tpuops.remote.port import AgentStatus, Exit, LogChunk, RunSpec
from tpuops.remote.ssh import SshConnector

COUNT = """
import os, time
for i in range(300):
    print("step=%d" % i)
    time.sleep(0.01)
    while i == 150 and not os.path.exists(os.path.expanduser("~/go-on")):
        time.sleep(0.01)
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def spec(code: str, run_id: str = RUN, **more: object) -> RunSpec:
    values = {"attempt": 1, "command": (sys.executable, "-c", code), **more}
    return RunSpec(run_id=run_id, **values)  # type: ignore[arg-type]


@pytest.fixture
async def agent(connector: SshConnector, machine: Machine) -> AsyncIterator[SshAgent]:
    connected = await connector.connect(machine.host(), 10)
    yield connected
    await connected.close()


async def test_a_run_is_started_followed_and_its_end_told(agent: SshAgent) -> None:
    started = await agent.start(spec("import sys; print('one'); print('two'); sys.exit(3)"))
    assert started.run_id == RUN and started.pid > 0
    told = [item async for item in agent.follow(RUN, 1, 0)]
    chunks = [item for item in told if isinstance(item, LogChunk)]
    assert b"".join(chunk.data for chunk in chunks) == b"one\ntwo\n" and told[-1] == Exit(3)
    assert (await agent.status()).exit == Exit(3)


async def test_a_follow_resumes_after_a_broken_connection_without_a_gap(
    agent: SshAgent, connector: SshConnector, machine: Machine
) -> None:
    pid = (await agent.start(spec(COUNT))).pid
    got = bytearray()
    with pytest.raises(Unreachable):
        async for item in agent.follow(RUN, 1, 0):
            assert isinstance(item, LogChunk) and item.offset == len(got)
            got += item.data
            if len(got) > 100:
                machine.drop()
    again = await connector.connect(machine.host(), 10)
    assert (await again.status()).pid == pid
    (machine.home / "go-on").touch()
    end = None
    async for item in again.follow(RUN, 1, len(got)):
        if isinstance(item, LogChunk):
            assert item.offset == len(got)
            got += item.data
        else:
            end = item
    assert end == Exit(0) and bytes(got) == b"".join(b"step=%d\n" % i for i in range(300))
    await again.close()


async def test_a_vanished_run_ends_in_a_status(agent: SshAgent, machine: Machine) -> None:
    pid = (await agent.start(spec(SLEEP))).pid
    record = machine.home / f".tpuops/runs/{RUN}/1/pid.json"
    recorder = lines.json.loads(record.read_text())["recorder"]["pid"]
    os.kill(recorder, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    told = [item async for item in agent.follow(RUN, 1, 0)]
    assert isinstance(told[-1], AgentStatus) and not told[-1].alive and told[-1].exit is None


async def test_leaving_a_follow_ends_it_on_the_machine_and_not_the_run(agent: SshAgent, machine: Machine) -> None:
    await agent.start(spec(SLEEP))
    follow = agent.follow(RUN, 1, 0)
    await anext(follow)
    await follow.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(5):
        await machine.processes[-1].wait()
    assert (await agent.status()).alive


async def test_another_run_is_busy(agent: SshAgent) -> None:
    await agent.start(spec(SLEEP))
    with pytest.raises(Busy, match=RUN):
        await agent.start(spec(SLEEP, run_id="r2"))
    assert not (await agent.stop(5)).alive


async def test_a_failed_setup_gives_its_code_and_last_lines(agent: SshAgent) -> None:
    with pytest.raises(CommandFailed) as caught:
        await agent.start(spec("pass", setup=(("sh", "-c", "echo because; exit 6"),)))
    assert caught.value.exit_status == 6 and caught.value.evidence[-1] == "because"


async def test_a_tree_is_sent_once(agent: SshAgent, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(open('data').read())")
    (tmp_path / "data").write_bytes(b"d" * 3_000_000)
    digest = sync.digest(tmp_path)
    await agent.sync(tmp_path, digest)
    there = machine.home / ".tpuops/source" / digest
    assert sync.digest(there) == digest
    before = there.stat().st_ino
    await agent.sync(tmp_path, digest)
    assert there.stat().st_ino == before and (await agent.status()).source == digest


async def test_a_tree_that_changes_while_it_is_sent_is_refused(agent: SshAgent, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    digest = sync.digest(tmp_path)
    (tmp_path / "a").write_text("two")
    with pytest.raises(CommandFailed, match="changed"):
        await agent.sync(tmp_path, digest)
    assert (await agent.status()).source == ""


async def test_a_connection_cut_while_a_tree_is_sent_leaves_nothing(
    agent: SshAgent, machine: Machine, tmp_path: Path, connector: SshConnector
) -> None:
    (tmp_path / "large").write_bytes(os.urandom(1 << 20) * 40)
    digest = sync.digest(tmp_path)
    asyncio.get_running_loop().call_later(0.15, machine.drop)
    with pytest.raises(Unreachable):
        await agent.sync(tmp_path, digest)
    again = await connector.connect(machine.host(), 10)
    assert (await again.status()).source == ""
    await again.sync(tmp_path, digest)
    assert (await again.status()).source == digest
    await again.close()


async def test_a_refusal_in_the_middle_of_a_tree_is_heard(
    agent: SshAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hostile(source: Path) -> Iterator[bytes]:
        yield tarfile.TarInfo("../evil").tobuf()
        yield from (bytes(1 << 20) for _ in range(64))

    monkeypatch.setattr(sync, "tar", hostile)
    with pytest.raises(CommandFailed, match="leads out"):
        await agent.sync(tmp_path, "0" * 64)


async def test_evidence_comes_as_bytes(agent: SshAgent) -> None:
    assert b"Filesystem" in (await agent.evidence())["disk.txt"]


class Bytes:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, n: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@pytest.mark.parametrize("said", [b"rubbish\n", b"[1]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"1\n", b"x" * 3000])
async def test_rubbish_from_a_machine_is_refused(said: bytes) -> None:
    with pytest.raises(CommandFailed):
        async for _ in lines.documents(Bytes(said), "m", limit=2000):
            pass


async def test_lines_are_put_together_from_pieces() -> None:
    reader = Bytes(b'{"a"', b": 1}\n{", b'"b": 2}\n')
    assert [document async for document in lines.documents(reader, "m")] == [{"a": 1}, {"b": 2}]


async def test_an_answer_about_a_hundred_thousand_files_is_taken() -> None:
    file = {"name": "runs/20261122-095518-abcdef/saved/outputs/checkpoints/params", "size": 1, "md5": "x" * 24}
    said = json.dumps({"ok": {"saved": [file] * 100_000, "failed": []}}).encode() + b"\n"
    reader = Bytes(*(said[at : at + (1 << 16)] for at in range(0, len(said), 1 << 16)))
    (document,) = [document async for document in lines.documents(reader, "m")]
    assert len(document["ok"]["saved"]) == 100_000


@pytest.mark.parametrize(
    "reply", ['{"ok": {}}', '{"ok": [1]}', '{"ok": {"boot_id": "x", "pid": "many"}}', '{"ok": null}', "", "garbage"]
)
async def test_a_lying_agent_is_a_failed_command(agent: SshAgent, machine: Machine, reply: str) -> None:
    program = next((machine.home / ".tpuops").glob("agent-*.pyz"))
    genuine = program.read_bytes()
    program.write_text(f"import sys\nprint({reply!r})\nsys.exit(1)\n")
    try:
        with pytest.raises(CommandFailed):
            await agent.status()
    finally:
        program.write_bytes(genuine)


async def test_a_source_that_cannot_be_read_is_the_files_fault(agent: SshAgent, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFileError):
        await agent.sync(tmp_path / "missing", "0" * 64)
