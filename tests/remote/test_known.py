"""A man in the middle: at the first connection, on reconnecting, and after the machine was made anew."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from tests.remote.server import Machine
from tpuops.errors import AccessError
from tpuops.remote import keys, openssh
from tpuops.remote.known import HostKeyChanged, Known
from tpuops.remote.port import Barrier, Host, NotConnected
from tpuops.remote.ssh import SshConnector


def public(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


def fresh(kind: str = "ssh-ed25519") -> str:
    return public(asyncssh.generate_private_key(kind))


async def in_between(machine: Machine, home: Path) -> Machine:
    """Somebody who listens where the machine was, and lets everybody in."""
    other = Machine(home / "mallory")
    other.home.mkdir()
    other.authorized = machine.authorized
    await machine.shut()
    other.port = machine.port
    await other.open()
    return other


async def refused(connector: SshConnector, host: Host, mallory: Machine) -> None:
    """Neither of the two ways in is taken, and the key of ours signs nothing for a stranger."""
    with pytest.raises(HostKeyChanged):
        await connector.connect(host, 5)
    assert mallory.commands == []


def by_openssh(host: Host, key: Path, folder: Path) -> int:
    config = openssh.files(host, key, folder)
    words = openssh.argv(config, host, ("true",), terminal=False)
    return subprocess.run(words, capture_output=True, check=False, timeout=30).returncode


async def test_at_the_first_connection(connector: SshConnector, machine: Machine, own: keys.OwnKey, home: Path) -> None:
    mallory = await in_between(machine, home)
    host = machine.host(machine="1 monday")
    await refused(connector, host, mallory)
    assert await asyncio.to_thread(by_openssh, host, own.path, home / "ssh") == 255
    await mallory.end()


async def test_on_reconnecting(connector: SshConnector, machine: Machine, own: keys.OwnKey, home: Path) -> None:
    host = machine.host(machine="1 monday")
    agent = await connector.connect(host, 10)
    assert await asyncio.to_thread(by_openssh, host, own.path, home / "ssh") == 0
    machine.drop()
    mallory = await in_between(machine, home)
    await refused(connector, host, mallory)
    assert await asyncio.to_thread(by_openssh, host, own.path, home / "ssh") == 255
    # Who could also write the machine's guest attributes gets no further: it is the same machine.
    told = mallory.host(machine="1 monday")
    await refused(connector, told, mallory)
    with pytest.raises(HostKeyChanged):
        openssh.files(told, own.path, home / "ssh")
    await agent.close()
    await mallory.end()


async def test_after_it_was_made_anew(connector: SshConnector, machine: Machine, own: keys.OwnKey, home: Path) -> None:
    agent = await connector.connect(machine.host(machine="1 monday"), 10)
    await agent.close()
    machine.drop()
    anew = await in_between(machine, home)  # the new machine at the old address
    agent = await connector.connect(anew.host(machine="2 tuesday"), 10)
    await agent.close()
    assert await asyncio.to_thread(by_openssh, anew.host(machine="2 tuesday"), own.path, own.path.parent / "ssh") == 0
    # The old machine's key does not open the way back, and somebody in between the new one is refused as before.
    mallory = await in_between(anew, home / "mallory")
    await refused(connector, anew.host(machine="2 tuesday"), mallory)
    await mallory.end()
    await anew.end()


def test_a_machine_keeps_its_kinds_of_keys(tmp_path: Path) -> None:
    known, first, second = Known(tmp_path), fresh(), fresh("ecdsa-sha2-nistp256")
    at = lambda *lines: Host("m", "127.0.0.1", "u", lines, machine="1 monday")  # noqa: E731
    assert known.trusted(at(first)) == (first,)
    assert known.trusted(at(first, second)) == (first,), "a kind that comes later is not believed"
    with pytest.raises(HostKeyChanged):
        known.trusted(at(second))
    with pytest.raises(HostKeyChanged) as told:
        known.trusted(at(fresh(), second))
    assert [line[:7] for line in told.value.evidence] == ["before:", "now:   "]
    known.forget("m")
    assert known.trusted(at(second)) == (second,)
    assert stat.S_IMODE(known.file("m").stat().st_mode) == 0o600


def test_one_that_does_not_learn_leaves_no_trace_and_still_remembers(tmp_path: Path) -> None:
    host = Host("m", "127.0.0.1", "u", (fresh(),), machine="1")
    Known(tmp_path / "a", learns=False).trusted(host)
    assert not (tmp_path / "a").exists()
    Known(tmp_path / "b").trusted(host)
    with pytest.raises(HostKeyChanged):
        Known(tmp_path / "b", learns=False).trusted(Host("m", "127.0.0.1", "u", (fresh(),), machine="1"))


INJECTIONS: list[Callable[[str], str]] = [
    lambda line: f"{line}\n* {fresh()}",
    lambda line: f"{line}\r* {fresh()}",
    lambda line: f"{line}\x0b* {fresh()}",
    lambda line: f"{line}\u2028* {fresh()}",
    lambda line: f"@cert-authority * {line}",
    lambda line: f"*,{line}",
    lambda line: f"{line} comment",
    lambda line: f" {line}",
    lambda line: f"{line}\x00",
    lambda line: line.replace("ssh-ed25519", "ssh-rsa", 1),
    lambda line: f"ssh-ed25519 {base64.b64encode(base64.b64decode(line.split()[1]) + b'more').decode()}",
    lambda line: f"|1|abc|def {line}",
]


@pytest.mark.parametrize("inject", INJECTIONS)
def test_what_guest_attributes_say_adds_no_line(tmp_path: Path, inject: Callable[[str], str]) -> None:
    """On a machine any program may write them; what is in known_hosts afterwards is what was there before."""
    true_key = fresh()
    at = lambda line: Host("m", "127.0.0.1", "u", (line,), machine="1 monday")  # noqa: E731
    openssh.files(at(true_key), tmp_path / "key", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(AccessError):
        openssh.files(at(inject(true_key)), tmp_path / "key", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(AccessError):
        openssh.files(at(inject(true_key)), tmp_path / "key", tmp_path / "empty")
    assert not (tmp_path / "empty" / "m.known_hosts").exists()


def test_a_file_that_was_tampered_with_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    known, host = Known(tmp_path), Host("m", "127.0.0.1", "u", (fresh(),), machine="1")
    for text in ("", "{", "[]", json.dumps({"machine": "1", "keys": {}}), json.dumps({"machine": "1", "keys": 3})):
        known.file("m").write_text(text)
        assert known.trusted(host) == host.host_keys


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".x", "a b"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(AccessError):
        Known(tmp_path).file(name)


async def test_where_a_connection_ended_is_told(connector: SshConnector, machine: Machine) -> None:
    machine.authorized.clear()
    with pytest.raises(NotConnected) as key:
        await connector.connect(machine.host(), 0.5)
    await machine.shut()
    with pytest.raises(NotConnected) as closed:
        await connector.connect(machine.host(), 0.5)
    with (
        socket.create_server(("127.0.0.1", machine.port)),  # nobody takes what the kernel accepts
        pytest.raises(NotConnected) as broken,
    ):
        await connector.connect(machine.host(), 0.5)
    with pytest.raises(NotConnected) as proxied:
        await connector.connect(machine.host(proxy=("sh", "-c", "echo no way through >&2; exit 3")), 0.5)
    found = [each.value.barrier for each in (key, closed, broken, proxied)]
    assert found == [Barrier.KEY, Barrier.CLOSED, Barrier.BROKEN, Barrier.PROXY]
    assert "no way through" in proxied.value.evidence
    await asyncio.sleep(0.3)  # the proxy's end is noticed by asyncio's own watcher


async def test_a_proxy_carries_the_connection(connector: SshConnector, machine: Machine) -> None:
    carry = (
        "import os,socket,sys,threading;s=socket.create_connection(('127.0.0.1',int(sys.argv[1])));"
        "print('some words',file=sys.stderr,flush=True);"
        "threading.Thread(target=lambda:[os.write(1,d) for d in iter(lambda:s.recv(65536),b'')],daemon=True).start();"
        "[s.sendall(d) for d in iter(lambda:os.read(0,65536),b'')]"
    )
    proxied = machine.host(address="192.0.2.1", proxy=("python3", "-c", carry, str(machine.port)))
    agent = await connector.connect(proxied, 20)
    assert (await agent.status()).boot_id
    await agent.close()
    await asyncio.sleep(0.3)
