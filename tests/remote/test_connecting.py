"""Getting onto a machine: patient with what passes, immovable about host keys."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from tests.remote.server import Machine, Proxy
from tpuops import templates
from tpuops.errors import AccessError, CommandFailed, Unreachable
from tpuops.remote import keys
from tpuops.remote.ssh import KEEPALIVE_COUNT, KEEPALIVE_S, SshConnector


def public(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


async def test_the_agent_is_installed_once(connector: SshConnector, machine: Machine) -> None:
    for _ in range(2):
        agent = await connector.connect(machine.host(), 10)
        assert (await agent.status()).boot_id
        await agent.close()
    installed = machine.home / ".tpuops" / f"agent-{templates.agent_digest()}.pyz"
    assert installed.read_bytes() == templates.agent_program()
    assert sum("sha256sum" in command for command in machine.commands) == 1


async def test_another_host_key_is_refused_at_once(connector: SshConnector, machine: Machine) -> None:
    other = public(asyncssh.generate_private_key("ssh-ed25519"))
    began = time.monotonic()
    with pytest.raises(AccessError, match="machine-0"):
        await connector.connect(machine.host(host_keys=(other,)), 30)
    assert time.monotonic() - began < 3 and machine.commands == []


async def test_another_kind_of_host_key_is_refused_too(connector: SshConnector, machine: Machine) -> None:
    other = public(asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
    with pytest.raises(AccessError):
        await connector.connect(machine.host(host_keys=(other,)), 30)
    assert machine.commands == []


async def test_the_users_known_hosts_and_configuration_count_for_nothing(
    connector: SshConnector, machine: Machine, home: Path
) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {public(machine.host_key)}\n")
    (home / ".ssh" / "config").write_text("Host *\n  StrictHostKeyChecking no\n  Port 1\n")
    other = public(asyncssh.generate_private_key("ssh-ed25519"))
    with pytest.raises(AccessError):
        await connector.connect(machine.host(host_keys=(other,)), 30)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: (),
        lambda line: ("",),
        lambda line: (f"{line}\n* {line}",),
        lambda line: (f"@cert-authority * {line}",),
        lambda line: (f"127.0.0.1 {line}",),
        lambda line: (line[:-9],),
        lambda line: ("ssh-ed25519",),
    ],
)
async def test_a_host_key_line_with_anything_else_in_it_is_refused(
    connector: SshConnector, machine: Machine, spoil: Callable[[str], tuple[str, ...]]
) -> None:
    with pytest.raises(AccessError):
        await connector.connect(machine.host(host_keys=spoil(public(machine.host_key))), 5)
    assert machine.commands == []


async def test_it_waits_for_the_key_to_propagate(connector: SshConnector, machine: Machine, own: keys.OwnKey) -> None:
    machine.authorized.clear()
    asyncio.get_running_loop().call_later(0.7, machine.authorized.append, own.public_line)
    began = time.monotonic()
    agent = await connector.connect(machine.host(), 10)
    assert 0.7 <= time.monotonic() - began < 2.5
    await agent.close()


async def test_it_waits_for_sshd(connector: SshConnector, machine: Machine) -> None:
    await machine.shut()
    opening = asyncio.get_running_loop().create_task(_open_later(machine))
    agent = await connector.connect(machine.host(), 10)
    await opening
    await agent.close()


async def test_it_waits_for_a_greeting_that_is_late(connector: SshConnector, machine: Machine) -> None:
    proxy = Proxy(machine.port)
    proxy.greets_after_s = 1.5
    await proxy.open()
    began = time.monotonic()
    agent = await connector.connect(machine.host(port=proxy.port), 10)
    assert 1.5 <= time.monotonic() - began < 5
    assert proxy.opened == 1, "it asked again instead of waiting"
    await agent.close()
    await proxy.end()


async def _open_later(machine: Machine) -> None:
    await asyncio.sleep(0.7)
    await machine.open()


@pytest.mark.parametrize("reason", ["refused", "stranger", "silent"])
async def test_it_gives_up_in_time_and_says_why(connector: SshConnector, machine: Machine, reason: str) -> None:
    proxy = Proxy(machine.port)
    await proxy.open()
    if reason == "refused":
        await machine.shut()
    machine.authorized.clear()
    proxy.silent = reason == "silent"
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        await connector.connect(machine.host(port=proxy.port if reason == "silent" else machine.port), 1.0)
    assert time.monotonic() - began < 2.5 and caught.value.evidence[0]
    await proxy.end()


async def test_a_broken_connection_is_unreachable(connector: SshConnector, machine: Machine) -> None:
    agent = await connector.connect(machine.host(), 10)
    machine.drop()
    with pytest.raises(Unreachable):
        await agent.status()
    with pytest.raises(Unreachable):
        await agent.stop(0)
    await agent.close()


async def test_a_silent_link_is_noticed(machine: Machine, own: keys.OwnKey) -> None:
    proxy = Proxy(machine.port)
    await proxy.open()
    agent = await SshConnector(own.path, keepalive_s=0.2).connect(machine.host(port=proxy.port), 10)
    proxy.silent = True
    began = time.monotonic()
    with pytest.raises(Unreachable):
        await agent.status()
    assert time.monotonic() - began <= 0.2 * (KEEPALIVE_COUNT + 1) + 0.5
    assert KEEPALIVE_S * (KEEPALIVE_COUNT + 1) <= 15 - 2, "the budget, with two seconds to spare"
    await agent.close()
    await proxy.end()


async def test_a_machine_that_cannot_take_the_agent_says_why(connector: SshConnector, machine: Machine) -> None:
    (machine.home / ".tpuops").touch()
    with pytest.raises(CommandFailed) as caught:
        await connector.connect(machine.host(), 10)
    assert any("tpuops" in line for line in caught.value.evidence)
    (machine.home / ".tpuops").unlink()


def test_the_key_is_made_once_and_is_private(home: Path) -> None:
    mask = os.umask(0)
    try:
        first = keys.own_key(home / "state")
    finally:
        os.umask(mask)
    assert first.path.stat().st_mode & 0o777 == 0o600 and first.public_line.startswith("ssh-ed25519 AAAA")
    assert keys.own_key(home / "state") == first
    assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]


@pytest.mark.parametrize("spoil", ["open", "link", "rubbish", "dangling"])
def test_a_key_that_is_not_ours_alone_is_refused(home: Path, spoil: str) -> None:
    path = keys.own_key(home / "state").path
    if spoil == "open":
        path.chmod(0o644)
    elif spoil == "rubbish":
        path.write_text("rubbish")
    else:
        path.rename(home / "elsewhere")
        path.symlink_to(home / ("elsewhere" if spoil == "link" else "nowhere"))
    with pytest.raises(AccessError):
        keys.own_key(home / "state")
